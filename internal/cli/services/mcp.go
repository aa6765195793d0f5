package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder/agentauth"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/auth"
	"github.com/powerbox-project/powerbox/internal/version"
)

func newMCP(p *cli.Program) *cobra.Command {
	var f auth.Flags
	var allowed []string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the Agent Auth client as an MCP server on standard input",
		Long: "Mcp lets the model of an MCP host use Agent Auth providers: discover them, ask a person for capabilities, and execute\n" +
			"them. The keys stay on this machine. A URL from the model is fetched only if --allow-provider allows it, its provider is\n" +
			"in the store, or the person at the MCP host confirms it. Denied requests are not repeated.",
		Example: "  powerbox mcp --allow-provider https://bank.example --passphrase-file ~/.config/powerbox/passphrase",
		Args:    cobra.NoArgs,
	}
	f.Add(cmd)
	cmd.Flags().StringSliceVar(&allowed, "allow-provider", nil, "`URL` of a provider that may be discovered without asking; may be repeated")
	f.AddHost(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := auth.AgentClient(p, &f)
		if err != nil {
			return err
		}
		known, err := auth.KnownProviders(p)
		if err != nil {
			return err
		}
		auth.DiscoverAll(cmd.Context(), p, client, known)
		allowed = append(allowed, known...)
		for i := range allowed {
			allowed[i] = strings.TrimSuffix(allowed[i], "/")
		}
		client.Approve = nil // the tools say it
		server := newMCPServer(&tools{client, allowed})
		err = server.Run(cmd.Context(), &mcp.IOTransport{Reader: io.NopCloser(p.Stdin), Writer: kept{p.Stdout}})
		if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	return cmd
}

// kept is a writer that stays open.
type kept struct{ io.Writer }

func (kept) Close() error { return nil }

// tools are the client's tools of the protocol (section 6).
type tools struct {
	client  *agentauth.Client
	allowed []string // issuers that are fetched without asking
}

// newMCPServer returns a server with every tool.
func newMCPServer(t *tools) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "powerbox", Version: version.Read().String()}, &mcp.ServerOptions{
		Instructions: "Tools to use services by the Agent Auth Protocol. Find a provider, see its capabilities, connect an agent with those that the task " +
			"needs and no more, and execute them. Where status is pending, show the person verification_uri and user_code, and then call " +
			"agent_status with wait_seconds. A denial is final: do not ask again and do not look for another way.",
	})
	tool(s, "search", "Search for capabilities, of every provider that is known and of the directory's: what is to be done, in a few words",
		`"query": {"type": "string", "description": "such as: transfer money"}, "limit": {"type": "integer", "minimum": 1, "maximum": 50}`, t.find, "query")
	tool(s, "list_providers", "List the providers that are known", "", t.listProviders)
	tool(s, "search_providers", "Search the directory for providers", `"intent": {"type": "string", "description": "what is needed, such as banking"}`, t.search, "intent")
	tool(s, "discover_provider", "Discover a provider by its URL", `"url": {"type": "string"}`, t.discover, "url")
	tool(s, "list_capabilities", "List the capabilities of a provider; with agent_id, with what the agent was granted",
		schemaProvider+`, "query": {"type": "string", "description": "words to search for"}, `+schemaAgent, t.list, "provider")
	tool(s, "describe_capability", "Describe one capability, with the schema of its arguments",
		schemaProvider+`, "name": {"type": "string"}, `+schemaAgent, t.describe, "provider", "name")
	tool(s, "connect_agent", "Register an agent with a provider, with the capabilities that the task needs", schemaProvider+
		`, "name": {"type": "string", "description": "the agent's name, for the person who approves"}, "mode": {"enum": ["delegated", "autonomous"]}, `+schemaAsking,
		t.connect, "provider", "name")
	tool(s, "request_capability", "Ask for more capabilities for a connected agent", schemaAgent+", "+schemaAsking, t.request, "agent_id", "capabilities")
	tool(s, "agent_status", "See how an agent stands, and wait for approval",
		schemaAgent+`, "wait_seconds": {"type": "integer", "minimum": 0, "maximum": 300}`, t.status, "agent_id")
	tool(s, "execute_capability", "Execute a granted capability",
		schemaAgent+`, "capability": {"type": "string"}, "arguments": {"type": "object"}`, t.execute, "agent_id", "capability")
	tool(s, "batch_execute_capabilities", "Execute several granted capabilities", schemaAgent+`, "requests": {"type": "array", "minItems": 1, "maxItems": 50,
		"items": {"type": "object", "required": ["capability"], "properties": {"capability": {"type": "string"}, "arguments": {"type": "object"}}}}`,
		t.batch, "agent_id", "requests")
	tool(s, "sign_jwt", "Sign a short-lived token, for a service that the agent calls itself", schemaAgent+
		`, "aud": {"type": "string", "description": "URL of the service"}, "capabilities": {"type": "array", "items": {"type": "string"}}`, t.sign, "agent_id")
	tool(s, "reactivate_agent", "Bring an expired agent back, with the default capabilities alone", schemaAgent, t.reactivate, "agent_id")
	tool(s, "disconnect_agent", "Revoke an agent permanently", schemaAgent, t.disconnect, "agent_id")
	tool(s, "rotate_agent_key", "Give an agent a new key", schemaAgent, t.rotateAgent, "agent_id")
	tool(s, "rotate_host_key", "Give the host a new key, at one provider or at every one",
		`"issuer": {"type": "string", "description": "URL of the provider; default: all providers"}`, t.rotateHost)
	tool(s, "enroll_host", "Make this host known to a provider, with the enrollment token that an administrator of it gave to the person",
		schemaProvider+`, "enrollment_token": {"type": "string"}, "name": {"type": "string", "description": "of the host, for people"}`, t.enroll, "provider", "enrollment_token")
	tool(s, "claim_agent", "Ask for the person to take over from an autonomous agent of this host; the agent ends when they do", schemaAgent+
		`, "preferred_method": {"type": "string"}, "login_hint": {"type": "string"}, "binding_message": {"type": "string"},
		"wait_seconds": {"type": "integer", "minimum": 0, "maximum": 300}, `+schemaProvider, t.claim, "agent_id")
	return s
}

// Parts of the tools' schemas.
const (
	schemaProvider = `"provider": {"type": "string", "description": "name or URL of the provider"}`
	schemaAgent    = `"agent_id": {"type": "string"}`
	schemaAsking   = `"capabilities": {"type": "array", "description": "names, or objects with name and constraints: {\"amount\": {\"max\": 100}}",
		"items": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "constraints": {"type": "object"}}}]}},
		"reason": {"type": "string", "description": "what for; the person sees it"}, "preferred_method": {"type": "string"}, "login_hint": {"type": "string"},
		"binding_message": {"type": "string"}, "wait_seconds": {"type": "integer", "minimum": 0, "maximum": 300}`
)

// tool adds one tool. What it returns is told as JSON; an error, too, so that the
// model can see why.
func tool[In any](s *mcp.Server, name, description, properties string, do func(context.Context, *mcp.CallToolRequest, In) (any, error), required ...string) {
	need, err := json.Marshal(append([]string{}, required...))
	if err != nil {
		panic("the names of a tool's arguments are no JSON")
	}
	schema := fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": %s, "properties": {%s}}`, need, properties)
	s.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in In
			if len(r.Params.Arguments) > 0 {
				if err := jsonv2.Unmarshal(r.Params.Arguments, &in, jsonv2.RejectUnknownMembers(true)); err != nil {
					return failed(fmt.Errorf("arguments of %s: %w", name, err)), nil
				}
			}
			out, err := do(ctx, r, in)
			var ask *askFirst
			if errors.As(err, &ask) {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{ask.id: ask.question}}, nil
			}
			if err != nil {
				return failed(err), nil
			}
			return told(out), nil
		})
}

func told(out any) *mcp.CallToolResult {
	data, err := json.Marshal(out)
	if err != nil {
		return failed(err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(data)}}}
}

// failed reports an error with its code and with advice to fix the call.
func failed(err error) *mcp.CallToolResult {
	body := map[string]any{"error": "failed", "message": err.Error()}
	var e *agentauth.Error
	var denied *agentauth.Denied
	switch {
	case errors.As(err, &e):
		body["error"] = e.Code
		for name, list := range map[string][]string{"invalid_capabilities": e.Invalid, "available_capabilities": e.Available, "unknown_operators": e.Unknown} {
			if len(list) > 0 {
				body[name] = list
			}
		}
		if len(e.Violations) > 0 {
			body["violations"] = e.Violations
		}
		if e.RetryAfter > 0 {
			body["retry_after"] = e.RetryAfter.Seconds()
		}
	case errors.As(err, &denied):
		body["error"] = "denied"
	}
	out := told(body)
	out.IsError = true
	return out
}

// admitted refuses a URL that a model names, unless the operator or a person at the
// MCP host says that it may be fetched (section 8.9, AAP-CL11).
func (t *tools) admitted(r *mcp.CallToolRequest, provider string) error {
	at := strings.TrimSuffix(provider, "/")
	if !strings.Contains(at, "://") || slices.Contains(t.allowed, at) {
		return nil
	}
	known, err := t.client.Providers()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(p agentauth.Provider) bool { return p.Issuer == at }) {
		return nil
	}
	refused := fmt.Errorf("%s is not fetched: no person confirmed it; a person can allow it with powerbox mcp --allow-provider, or discover it with powerbox agent discover", at)
	// The answer is to the question about this URL and no other.
	id := "fetch " + at
	if answer, ok := r.Params.InputResponses[id].(*mcp.ElicitResult); ok {
		if answer.Action == "accept" && answer.Content["fetch"] == true {
			return nil
		}
		return refused
	}
	if !canAsk(r) {
		return refused
	}
	return &askFirst{id, &mcp.ElicitParams{
		Message:         "An agent wants to use a provider that is not known yet: " + at + ". Fetch it?",
		RequestedSchema: json.RawMessage(`{"type": "object", "required": ["fetch"], "properties": {"fetch": {"type": "boolean", "title": "Fetch it"}}}`),
	}}
}

// askFirst marks tools that ask the person at the MCP host before they continue.
type askFirst struct {
	id       string
	question *mcp.ElicitParams
}

func (a *askFirst) Error() string { return a.question.Message }

// canAsk reports whether the MCP host can ask its person: it says so when a session
// begins, or with every request.
func canAsk(r *mcp.CallToolRequest) bool {
	if p := r.Session.InitializeParams(); p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil {
		return true
	}
	capabilities, _ := r.Params.GetMeta()[mcp.MetaKeyClientCapabilities].(map[string]any)
	return capabilities["elicitation"] != nil
}
