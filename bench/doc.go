// Command bench measures Powerbox and its peers in one run and prints the table
// of docs/assurance/performance.md.
//
//	go run . [-rounds 6] [-cell 100ms] [-dir DIR] [-write]
//	go run . -against BINARY   the gateway of this tree and that of another binary, in the same rounds
//
// Machines are noisy: what counts is the ratio between two things that were
// measured one after the other in the same round, in process CPU time with the
// garbage collector's share. The table has the median of the rounds and the
// quartile on the bad side; a goal is met where that quartile meets it. Times
// stand beside the ratios for orientation and decide nothing, except where a
// goal is a time.
//
// Every contestant for a row does the same work: bytes in, N links that each
// narrow {read, write} under /docs/ to {read} under /docs/reports/ with an
// expiry of their own, one request authorized. The tests of this module show
// that each allows the one request and denies the other.
package main
