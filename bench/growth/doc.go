// Growth measures how the costs of the built program grow with what its store has: records,
// capabilities, revocations and agents. It measures each at 1, 10 and 100 times of a size.
//
//	go run ./growth -write
package main
