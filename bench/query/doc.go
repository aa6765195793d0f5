// Query measures resourceQuery over 1,000,000 rows in PostgreSQL through the built program:
// how long a request takes, and whether its time tells a hidden resource from an absent one.
//
//	go run ./query -write
package main
