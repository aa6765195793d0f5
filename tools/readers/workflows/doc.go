// Package workflows has tests alone: actionlint reads the workflows.
package workflows
