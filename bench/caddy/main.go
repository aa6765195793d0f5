// Command caddy runs Caddy's reverse_proxy handler alone, behind TLS with
// client certificates like everybody in the rows of the gateway:
//
//	caddy LISTEN UPSTREAM FOLDER
//
// or a Caddyfile, with forward_auth, the handlers of its example in deploy/gateways, the
// handler bearer_jwt and the log writer synced:
//
//	caddy FILE
//
// FOLDER has server.pem, server.key and ca.pem. It is a separate module, since
// it needs more than the rest of bench together.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy/forwardauth"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls"
)

const configuration = `{"admin":{"disabled":true,"config":{"persist":false}},
 "logging":{"logs":{"default":{"level":"ERROR"}}},
 "apps":{
  "tls":{"certificates":{"load_files":[{"certificate":%q,"key":%q}]}},
  "http":{"servers":{"s":{"listen":[%q],"automatic_https":{"disable":true},"strict_sni_host":false,
   "tls_connection_policies":[{"client_authentication":{"ca":{"provider":"file","pem_files":[%q]},"mode":"verify_if_given"}}],
   "routes":[{"handle":[{"handler":"reverse_proxy",
    "transport":{"protocol":"http","keep_alive":{"max_idle_conns_per_host":256}},
    "upstreams":[{"dial":%q}]}]}]}}}}}`

func main() {
	if len(os.Args) == 2 {
		if err := runFile(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	}
	listen, upstream, folder := os.Args[1], os.Args[2], os.Args[3]
	in := func(name string) string { return filepath.Join(folder, name) }
	text := fmt.Sprintf(configuration, in("server.pem"), in("server.key"), listen, in("ca.pem"), upstream)
	if err := caddy.Load([]byte(text), true); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// runFile runs a Caddyfile.
func runFile(name string) error {
	text, err := os.ReadFile(name) //nolint:gosec // the file that its caller names
	if err != nil {
		return err
	}
	caddy.RegisterModule(new(bearer))
	caddy.RegisterModule(new(syncedLog))
	httpcaddyfile.RegisterHandlerDirective("bearer_jwt", parseBearer)
	document, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": name})
	if err != nil {
		return err
	}
	return caddy.Load(document, true)
}
