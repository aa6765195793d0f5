// Console measures the pages of the console over a store with much data: how long each page
// takes, and how much memory the server needs at most. It starts the built powerbox on
// loopback, over a store that it fills with the packages of the store.
//
//	go run ./console -write
package main
