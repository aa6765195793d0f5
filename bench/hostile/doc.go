// Command hostile sends the requests that cost a gateway most to the built program,
// and measures what each takes of the process: CPU and peak memory. It writes the
// section "Hostile requests" of docs/assurance/performance.md.
//
//	cd bench && go run ./hostile [-only TEXT] [-powerbox FILE] [-write]
//
// It runs on Linux alone, and needs no network beyond loopback.
package main
