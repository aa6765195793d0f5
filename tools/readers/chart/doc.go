// Package chart has tests alone: Helm's own linter and engine read the chart.
package chart
