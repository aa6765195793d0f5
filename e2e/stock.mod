// The a2a command line of a2a-go, which the tests of this folder build and run
// as its users have it: with the versions that a2a-go names, and not those of
// go.mod. From the root: go -C e2e build -modfile=stock.mod TOOL.
module github.com/powerbox-project/powerbox/e2e

go 1.26.0

tool github.com/a2aproject/a2a-go/v2/cmd/a2a

require github.com/a2aproject/a2a-go/v2 v2.4.0

require (
	github.com/a2aproject/a2a-go v0.3.15 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	golang.org/x/mod v0.35.0 // indirect
	golang.org/x/net v0.55.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
	golang.org/x/text v0.37.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260427160629-7cedc36a6bc4 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260427160629-7cedc36a6bc4 // indirect
	google.golang.org/grpc v1.82.1 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
