// Command reliability breaks an installation of the built program on purpose, under
// load, as often as it is told, and counts acknowledged records that were lost
// (bench/internal/reliability). It prints the tables of docs/assurance/reliability.md.
//
//	cd bench && go run ./reliability [-times 10] [-pause 60s] [-soak 10m] [-only NAME] [-write]
//
// PostgreSQL 15 or newer must be installed (make test-deps). As root it mounts a small
// tmpfs to fill; as anybody else that trial fails.
package main
