// Package handoff reads declarations of who may hand what to whom, from files
// that stand beside the agents in version control, and shows the graph that they
// make (GATE-12 to GATE-14). The graph itself is
// package graph's; here are the files, their differences, and the pictures.
//
// Its laws: a file means what it says, key by key, or is refused with file and
// line; a repeated declaration is refused; the same files give the same output.
package handoff
