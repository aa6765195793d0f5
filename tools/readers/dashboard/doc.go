// Package dashboard has tests alone: Prometheus' own parser and engine run every query of the
// dashboard and of the alerts on metrics as the product tells them.
package dashboard
