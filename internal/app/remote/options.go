package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
)

// DefaultState is the folder where a gateway keeps its keys and the records that the
// server does not have yet.
const DefaultState = "powerbox-gateway"

// Options are the flags of a gateway that runs.
type Options struct {
	State      string
	Passphrase string // file
	Credential string // file of the secret for the agent behind, "" for none
	Listen     string
	Upstream   string
	GRPC       string // where gRPC is taken, "" for nowhere
	Address    string // where clients reach that; "" for grpc
	Lease      time.Duration
	Lazy       time.Duration
	Feeds      []string // relays of the feed
	FeedToken  string   // file with the token for them
	Dev        bool
	Telemetry  config.Telemetry
	TLS        config.TLS
	Proxies    config.Proxies
	MCP        MCPOptions
	Door       DoorOptions
}

// listenOn opens the address of a gateway.
func listenOn(p Process, o Options, l net.Listener) error {
	if o.Dev && !serve.Loopback(l.Addr()) {
		return errors.Join(errors.New("--dev listens on loopback addresses only"), l.Close())
	}
	if o.Dev {
		fmt.Fprintln(p.Stderr, "NOT SAFE: --dev admits built-in users with fixed tokens. Use it for experiments on this machine only.")
	}
	return nil
}

// MCPOptions say how a gateway runs an MCP server that speaks by its standard input,
// and whether it speaks so itself.
type MCPOptions struct {
	Exec       bool
	Command    []string // behind --
	Env        []string // names of variables that it gets
	secret     string   // NAME=value of the secret that it gets, "" for none
	Sessions   int
	Share      int    // of the sessions, for one client; 0 for a quarter
	Stdio      bool   // one client, by our own standard input and output
	Capability string // file with the capability that the client presents
	Key        string // file with the key of its holder
	// read reads one capability of a file.
	Read func(file string) (holder.Capability, error)
}

// Process is the standard streams of a gateway's process, and its clock.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Now            func() time.Time
}

// Given are the variables of the environment that a command gets without being
// named: none of them is a secret.
var Given = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"}

// Check reports options that do not go together.
func (o MCPOptions) Check() error {
	switch {
	case !o.Exec && len(o.Command) > 0:
		return fmt.Errorf("%q is no command of powerbox gateway; to run it as an MCP server, want powerbox gateway --mcp-exec -- COMMAND ARGUMENTS", o.Command[0])
	case !o.Exec && (len(o.Env) > 0 || o.Stdio):
		return errors.New("--mcp-env and --stdio need --mcp-exec: powerbox gateway --mcp-exec -- COMMAND ARGUMENTS")
	case o.Exec && len(o.Command) == 0:
		return errors.New("--mcp-exec wants a command: powerbox gateway --mcp-exec -- COMMAND ARGUMENTS")
	case o.Stdio != (o.Capability != "" && o.Key != ""), !o.Stdio && o.Capability+o.Key != "":
		return errors.New("--stdio, --capability and --key go together: what the host's calls are made under, and by whom")
	case o.Share < 0 || o.Share > o.Sessions:
		return errors.New("--mcp-client-sessions is negative, or more than --mcp-sessions")
	case o.Sessions < 1:
		return errors.New("--mcp-sessions is less than 1")
	}
	for _, name := range o.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("--mcp-env %q is no name of a variable", name)
		}
	}
	return nil
}
