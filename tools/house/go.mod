module github.com/powerbox-project/powerbox/tools/house

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	golang.org/x/mod v0.42.0
	golang.org/x/sync v0.23.0
)
