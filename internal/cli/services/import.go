package services

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/backend"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/internal/wire/openapi"
)

func newAgentImport(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "import",
		Short:   "Create capabilities from an OpenAPI document or an MCP server",
		Example: "  powerbox agent import openapi petstore.yaml",
		Long: "Import prints an agent of powerbox.yaml with the operations of a service, for the include of a configuration. It guesses\n" +
			"which operations change something, and marks each guess: review them. Operations that cannot be offered exactly are\n" +
			"left out, with the reason.",
	}
	cmd.AddCommand(newAgentImportOpenAPI(p), newAgentImportMCP(p))
	return cmd
}

// imported is an agent that is to be written.
type imported struct {
	from, name, upstream string
	capabilities         []importedCapability
	left                 []openapi.LeftOut
}

type importedCapability struct {
	name, says, sensitivity, why string
	input, output                powerbox.Value
	behind                       string // YAML of what it is behind
}

// importFlags choose the imported operations and their names.
type importFlags struct {
	id, tokenFile string
	only          []string
}

func (f *importFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "id", "", "id of the agent; default: made from the title")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "capabilities to import, by their new names; may be repeated")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` with the service's bearer token, which the configuration refers to")
}

// token is how the configuration names the service's token, "" for none.
func (f *importFlags) token() string {
	if f.tokenFile == "" {
		return ""
	}
	return ", token_file: " + flow(f.tokenFile)
}

func newAgentImportOpenAPI(p *cli.Program) *cobra.Command {
	var f importFlags
	var base string
	cmd := &cobra.Command{
		Use:   "openapi FILE_OR_URL",
		Short: "Create capabilities from an OpenAPI 3 document",
		Example: "  powerbox agent import openapi petstore.yaml --base https://petstore.example/v1 > powerbox.d/petstore.yaml\n" +
			"  powerbox agent import openapi https://petstore.example/openapi.json --only list_pets,get_pet",
		Args: cobra.ExactArgs(1),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&base, "base", "", "`URL` of the interface; default: the first server of the document")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := document(cmd.Context(), p, args[0])
		if err != nil {
			return err
		}
		root, err := openapi.Read(data)
		if err != nil {
			return cli.Invalid(err)
		}
		described, err := openapi.Describe(root, base)
		if err != nil {
			return cli.Invalid(err)
		}
		out := imported{from: args[0], name: described.Title, upstream: described.Base, left: described.Left}
		for _, o := range described.Operations {
			out.take(&f, importedOperation(o, f.token()))
		}
		return printImported(p, &out, &f)
	}
	return cmd
}

// document reads a file or a URL.
func document(ctx context.Context, p *cli.Program, from string) ([]byte, error) {
	if !strings.Contains(from, "://") {
		return p.ReadFile(from)
	}
	policy := outbound.Configured()
	policy.MaxBytes = openapi.MaxBytes
	data, _, err := outbound.New(policy).Get(ctx, from, "application/json, application/yaml, text/yaml")
	return data, err
}

// importedOperation is an operation as a capability. What it changes is told by its method,
// as in HTTP.
func importedOperation(o openapi.Operation, token string) importedCapability {
	c := importedCapability{name: o.Name, says: o.Description, input: o.Input, sensitivity: "write", why: o.Method}
	switch o.Method {
	case http.MethodGet:
		c.sensitivity = "read"
	case http.MethodDelete:
		c.sensitivity = "high"
	}
	var b strings.Builder
	cli.Printf(&b, "request: {method: %s, url: %s", o.Method, flow(o.URL))
	for _, part := range []struct {
		key   string
		names []string
	}{{"query", o.Query}, {"header", o.Header}, {"body", o.Body}} {
		if len(part.names) > 0 {
			cli.Printf(&b, ", %s: %s", part.key, flow(part.names))
		}
	}
	if o.Whole != "" {
		cli.Printf(&b, ", body_argument: %s", flow(o.Whole))
	}
	c.behind = b.String() + token + "}"
	return c
}

func newAgentImportMCP(p *cli.Program) *cobra.Command {
	var f importFlags
	var trust bool
	cmd := &cobra.Command{
		Use:     "mcp URL",
		Short:   "Create capabilities from the tools of an MCP server",
		Example: "  powerbox agent import mcp https://tools.example/mcp --token-file /etc/powerbox/tools-token > powerbox.d/tools.yaml",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&trust, "trust-hints", false, "trust the server's hint that a tool only reads")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tools, title, err := toolsOf(cmd.Context(), args[0], f.tokenFile)
		if err != nil {
			return err
		}
		out := imported{from: args[0], name: title, upstream: args[0]}
		for _, t := range tools {
			c, err := toolOf(t, args[0], f.token(), trust)
			if err != nil {
				out.left = append(out.left, openapi.LeftOut{Operation: t.Name, Why: err.Error()})
				continue
			}
			out.take(&f, c)
		}
		return printImported(p, &out, &f)
	}
	return cmd
}

// maxTools bounds the tools of one server, and maxToolList the bytes of its list.
const (
	maxTools    = 1000
	maxToolList = 16 << 20
)

// toolsOf asks an MCP server for its tools.
func toolsOf(ctx context.Context, url, tokenFile string) ([]*mcp.Tool, string, error) {
	token, err := outbound.ServiceToken(config.Path(tokenFile))
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, cli.CallTimeout)
	defer cancel()
	client := &http.Client{
		Transport:     authorized{outbound.New(outbound.Configured()).Transport(), token},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	session, err := backend.Session(ctx, url, client, maxToolList, nil)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = session.Close() }() // it was answered; the server ends it in time
	title := ""
	if info := session.InitializeResult(); info != nil && info.ServerInfo != nil {
		title = cmp.Or(info.ServerInfo.Title, info.ServerInfo.Name)
	}
	var out []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, "", fmt.Errorf("the tools of %s: %w", url, err)
		}
		if out = append(out, t); len(out) > maxTools {
			return nil, "", fmt.Errorf("%s has more than %d tools", url, maxTools)
		}
	}
	return out, title, nil
}

// authorized adds a bearer token, where there is one.
type authorized struct {
	next  http.RoundTripper
	token string
}

// RoundTrip implements [http.RoundTripper].
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.token == "" {
		return a.next.RoundTrip(r)
	}
	out := r.Clone(r.Context())
	out.Header.Set("Authorization", "Bearer "+a.token)
	return a.next.RoundTrip(out)
}

// toolOf is a tool as a capability. Hints of a server are its own word: that a tool
// destroys something is believed, and that it only reads where the operator says so.
func toolOf(t *mcp.Tool, url, token string, trust bool) (importedCapability, error) {
	c := importedCapability{name: openapi.Name(t.Name), says: openapi.Sentence(t.Description), sensitivity: "write", why: "nothing is said"}
	if c.says == "" {
		c.says = openapi.Sentence(cmp.Or(t.Title, t.Name))
	}
	if a := t.Annotations; a != nil {
		switch {
		case a.ReadOnlyHint && trust:
			c.sensitivity, c.why = "read", "the server says that it only reads"
		case a.ReadOnlyHint:
			c.why = "the server says that it only reads; --trust-hints believes it"
		case a.DestructiveHint != nil && *a.DestructiveHint:
			c.sensitivity, c.why = "high", "the server says that it destroys"
		}
	}
	var err error
	if c.input, err = schemaValue(t.InputSchema); err != nil {
		return c, fmt.Errorf("its input schema: %w", err)
	}
	if c.input.Kind() == powerbox.KindObject {
		c.input = closed(c.input)
	}
	if c.output, err = schemaValue(t.OutputSchema); err != nil {
		return c, fmt.Errorf("its output schema: %w", err)
	}
	c.behind = fmt.Sprintf("mcp: {url: %s, tool: %s%s}", flow(url), flow(t.Name), token)
	return c, nil
}

func schemaValue(schema any) (powerbox.Value, error) {
	if schema == nil {
		return powerbox.Value{}, nil
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return powerbox.Value{}, err
	}
	return powerbox.ParseValue(data)
}

// closed is a schema of named arguments that admits no others, where it does not say.
func closed(schema powerbox.Value) powerbox.Value {
	members, _ := schema.Members()
	for _, beyond := range []string{"additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"} {
		if _, has := schema.Get(beyond); has {
			return schema
		}
	}
	return powerbox.Object(append(slices.Clone(members), powerbox.Member{Name: "additionalProperties", Value: powerbox.Bool(false)})...)
}

// take adds a capability, where it was asked for and can be offered.
func (i *imported) take(f *importFlags, c importedCapability) {
	if len(f.only) > 0 && !slices.Contains(f.only, c.name) {
		return
	}
	var err error
	switch {
	case !agentauth.ValidName(c.name):
		err = errors.New("its name makes no name of a capability")
	case slices.ContainsFunc(i.capabilities, func(o importedCapability) bool { return o.name == c.name }):
		err = fmt.Errorf("another is called %s already", c.name)
	default:
		err = provider.CheckSchema(c.input)
	}
	if err != nil {
		i.left = append(i.left, openapi.LeftOut{Operation: c.name, Why: err.Error()})
		return
	}
	i.capabilities = append(i.capabilities, c)
}

// printImported writes the agent, and names the operations that were left out.
func printImported(p *cli.Program, i *imported, f *importFlags) error {
	for _, l := range i.left {
		cli.Printf(p.Stderr, "powerbox: left out: %s: %s\n", openapi.Sentence(l.Operation), openapi.Sentence(l.Why))
	}
	for _, name := range f.only {
		if !slices.ContainsFunc(i.capabilities, func(c importedCapability) bool { return c.name == name }) {
			return fmt.Errorf("%s has no capability %q that can be imported", i.from, name)
		}
	}
	if len(i.capabilities) == 0 {
		return fmt.Errorf("%s has nothing that can be imported", i.from)
	}
	id := cmp.Or(f.id, strings.ReplaceAll(openapi.Name(i.name), "_", "-"), "imported")
	var b strings.Builder
	cli.Printf(&b, "# Written by powerbox agent import from %s.\n", openapi.Sentence(i.from))
	b.WriteString("# Lines with \"# guess\" are guesses: look at each, and at what people will read. Nothing is a default, and nothing is public, until you say so.\n")
	cli.Printf(&b, "agents:\n  - id: %s\n    upstream: %s\n    mode: require\n    agent_auth:\n", flow(id), flow(i.upstream))
	cli.Printf(&b, "      provider_name: %s\n      capabilities:\n", flow(cmp.Or(openapi.Sentence(i.name), id)))
	for _, c := range i.capabilities {
		cli.Printf(&b, "        - name: %s\n          description: %s\n          sensitivity: %s # guess: %s\n", flow(c.name), flow(c.says), c.sensitivity, c.why)
		for key, schema := range map[string]powerbox.Value{"input": c.input, "output": c.output} {
			if schema.Kind() != powerbox.KindNull {
				cli.Printf(&b, "          %s: %s\n", key, flow(schema))
			}
		}
		cli.Printf(&b, "          %s\n", c.behind)
	}
	cli.Document(p.Stdout, b.String())
	return nil
}

// flow is a thing as in YAML and JSON: JSON, in which nothing stands that YAML
// takes for the end of a line.
func flow(thing any) string {
	data, err := json.Marshal(thing)
	if err != nil {
		panic("what is imported is no JSON: " + err.Error()) // only texts and values
	}
	var b strings.Builder
	for _, r := range string(data) {
		if r > unicode.MaxASCII && r < 0x10000 && !unicode.IsPrint(r) {
			cli.Printf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return strings.ReplaceAll(b.String(), "\x7f", strconv.Quote("\x7f")[1:5])
}
