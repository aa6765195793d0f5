package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/web/agentapi"
)

// personFlags say which server a person talks to, and who that person is.
type personFlags struct {
	server, session, as string
}

func addPersonFlags(cmd *cobra.Command) *personFlags {
	var f personFlags
	cmd.Flags().StringVar(&f.server, "server", "", "`URL` of the server (required)")
	cmd.Flags().StringVar(&f.session, "session-file", "", "`file` with your session, as powerbox login writes it; - is standard input")
	cmd.Flags().StringVar(&f.as, "as", "", "built-in `user` to be; only where the server runs in dev mode")
	required(cmd, "server")
	return &f
}

// person is the interface of a running server, for one person.
type person struct {
	base, token, as string
	http            *http.Client
}

func (p *program) person(f *personFlags) (*person, error) {
	who := &person{base: strings.TrimRight(f.server, "/"), as: f.as, http: newHTTPClient()}
	if (f.as == "") == (f.session == "") {
		return nil, usage(errors.New("want one of --session-file, which powerbox login makes, and, in dev mode, --as"))
	}
	if f.session != "" {
		data, err := p.readFile(f.session)
		if err != nil {
			return nil, err
		}
		who.token = strings.TrimSpace(string(data))
	}
	return who, safeForToken(who.base)
}

// problemOf is the refusal of a provider.
type problemOf struct {
	Code    string `json:"error"`
	Message string `json:"message"`
}

// call makes one call. What it is answered with goes into into, and is returned as
// it came.
func (w *person) call(ctx context.Context, method, path string, body, into any) (json.RawMessage, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, w.base+path, payload)
	if err != nil {
		return nil, err
	}
	if w.token != "" {
		request.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.as != "" {
		request.Header.Set(agentapi.DevUserHeader, w.as)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := w.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the server does not answer: %w; is powerbox serve running there?", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	data, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		var problem problemOf
		if json.Unmarshal(data, &problem) != nil || problem.Message == "" {
			problem.Message = "HTTP status " + response.Status
		}
		err := fmt.Errorf("%s%s: %s", w.base, path, problem.Message)
		if response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized {
			err = exitWith(exitDenied, err)
		}
		return nil, err
	}
	return data, json.Unmarshal(data, into)
}

// question is a request as the server tells it.
type question struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"`
	Status       string `json:"status"`
	Agent        string `json:"agent_id"`
	Host         string `json:"host_id"`
	HostKnown    bool   `json:"host_known"`
	Mode         string `json:"mode"`
	Expires      string `json:"expires_at"`
	Capabilities []struct {
		Grant       string          `json:"grant"`
		Capability  string          `json:"capability"`
		Description string          `json:"description"`
		Sensitivity string          `json:"sensitivity"`
		Constraints json.RawMessage `json:"constraints"`
		Nothing     bool            `json:"nothing_remains"`
	} `json:"capabilities"`
	Holds  []string `json:"holds"`
	Claims []struct {
		Agent string `json:"agent_id"`
		Name  string `json:"name"`
	} `json:"claims"`
	Words struct {
		Name     string `json:"name"`
		HostName string `json:"host_name"`
		Reason   string `json:"reason"`
		Message  string `json:"message"`
	} `json:"in_its_own_words"`
}

func newApproval(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approval",
		Short: "See and answer what agents ask of you",
		Long: "Approval shows the requests of agents that wait for you, and answers them. What changes something needs a passkey, and is\n" +
			"approved on the page that the request names; everything can be denied here.",
	}
	cmd.AddCommand(newApprovalList(p), newApprovalShow(p), newApprovalApprove(p), newApprovalDeny(p), newApprovalRevoke(p), newApprovalWatch(p), newApprovalWebhooks(p))
	return cmd
}

func newApprovalList(p *program) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the requests that wait for you", Args: cobra.NoArgs}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		who, err := p.person(f)
		if err != nil {
			return err
		}
		all, raw, err := who.open(cmd.Context())
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.printRaw(raw)
		}
		return p.listOpen(all)
	}
	return cmd
}

// listOpen lists what waits for a person: what agents want to be let in for, what
// was asked for in the person's own name, and what the person reviews.
func (p *program) listOpen(all open) error {
	if len(all.Approvals)+len(all.Confirmations)+len(all.Reviews) == 0 {
		fmt.Fprintln(p.stdout, "Nothing waits for you.")
		return p.listApproved(all.Approved)
	}
	return errors.Join(p.listQuestions(all.Approvals), p.listDesk("My confirmations", all.Confirmations), p.listDesk("To review for others", all.Reviews), p.listApproved(all.Approved))
}

func (p *program) listQuestions(questions []question) error {
	if len(questions) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REQUEST\tAGENT\tASKS FOR\tUNTIL")
	for _, q := range questions {
		names := make([]string, len(q.Capabilities))
		for i, c := range q.Capabilities {
			names[i] = c.Capability
		}
		fmt.Fprintf(w, "%s\t%q\t%s\t%s\n", q.ID, q.Words.Name, strings.Join(names, ", "), q.Expires)
	}
	return w.Flush()
}

func newApprovalShow(p *program) *cobra.Command {
	cmd := &cobra.Command{Use: "show CODE", Short: "Show one request, by its code or id", Args: cobra.ExactArgs(1)}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		who, err := p.person(f)
		if err != nil {
			return err
		}
		return p.showAny(cmd.Context(), who, args[0], *output)
	}
	return cmd
}

// showQuestion shows what the server knows, and apart from it what the agent says.
func (p *program) showQuestion(q question) {
	host := "a host that nobody has approved yet"
	if q.HostKnown {
		host = "a host that was approved before"
	}
	fmt.Fprintf(p.stdout, "%s: agent %s, under %s, %s\nIt calls itself %q", q.ID, q.Agent, q.Host, host, q.Words.Name)
	if q.Words.HostName != "" {
		fmt.Fprintf(p.stdout, " on %q", q.Words.HostName)
	}
	if q.Words.Reason != "" {
		fmt.Fprintf(p.stdout, " and says: %q", q.Words.Reason)
	}
	fmt.Fprint(p.stdout, "\n\nIt asks for:\n")
	for _, c := range q.Capabilities {
		fmt.Fprintf(p.stdout, "  %s (%s): %s\n", c.Capability, c.Sensitivity, c.Description)
		if c.Constraints != nil {
			fmt.Fprintf(p.stdout, "      only with %s\n", shownJSON(c.Constraints))
		}
		if c.Nothing {
			fmt.Fprintln(p.stdout, "      nothing of it remains within what the server holds it to by now: it cannot be granted")
		}
	}
	if len(q.Holds) > 0 {
		fmt.Fprintf(p.stdout, "It has already: %s\n", strings.Join(q.Holds, ", "))
	}
	if len(q.Claims) > 0 {
		ends := "1 agent that acts on its own under it ends"
		if n := len(q.Claims); n > 1 {
			ends = fmt.Sprintf("%d agents that act on their own under it end", n)
		}
		fmt.Fprintf(p.stdout, "The host becomes yours when you approve. %s then, with all that they may do, and what they have done is attributed to you:\n", ends)
		for _, a := range q.Claims {
			fmt.Fprintf(p.stdout, "  %s, which calls itself %q\n", a.Agent, a.Name)
		}
	}
	fmt.Fprintf(p.stdout, "Answer until %s.\n", q.Expires)
}

func newApprovalApprove(p *program) *cobra.Command {
	var left deskAnswer
	var narrow string
	cmd := &cobra.Command{
		Use:   "approve CODE",
		Short: "Approve a request, or a part of it",
		Example: "  powerbox approval approve KV7N-9G3G --server https://bank.example --session-file session\n" +
			"  powerbox approval approve KV7N-9G3G --server http://127.0.0.1:4850 --as alice --only check_balance",
		Args: cobra.ExactArgs(1),
	}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.Flags().StringSliceVar(&left.only, "only", nil, "approve these `capabilities`, or operations, and deny the others")
	cmd.Flags().StringSliceVar(&left.resources, "resource", nil, "`names` or ids of the resources to leave; all where absent")
	cmd.Flags().StringVar(&left.until, "until", "", "an earlier end, as a `time` such as 2027-01-02T15:04:05Z")
	cmd.Flags().StringVar(&narrow, "constraints", "", "narrower constraints by capability, as `JSON`: {\"transfer_money\": {\"amount\": {\"max\": 100}}}")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.HasPrefix(args[0], deskPrefix) {
			body, err := left.body(narrow)
			if err != nil {
				return err
			}
			return p.answerQuestion(cmd.Context(), f, args[0], body, *output)
		}
		if left.resources != nil || left.until != "" {
			return usage(errors.New("--resource and --until are not for requests of Agent Auth; use --only and --constraints"))
		}
		body := map[string]any{}
		if cmd.Flags().Changed("only") {
			body["only"] = left.only
		}
		if narrow != "" {
			if !json.Valid([]byte(narrow)) {
				return usage(errors.New("--constraints is no JSON; want {\"capability\": {\"field\": {\"max\": 1}}}"))
			}
			body["constraints"] = json.RawMessage(narrow)
		}
		return p.answerQuestion(cmd.Context(), f, args[0], body, *output)
	}
	return cmd
}

func newApprovalDeny(p *program) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: "deny CODE", Short: "Deny a request", Args: cobra.ExactArgs(1)}
	output, f := outputFlag(cmd), addPersonFlags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "what the agent is told")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.answerQuestion(cmd.Context(), f, args[0], map[string]any{"deny": true, "reason": reason}, *output)
	}
	return cmd
}

func (p *program) answerQuestion(ctx context.Context, f *personFlags, code string, body map[string]any, output string) error {
	who, err := p.person(f)
	if err != nil {
		return err
	}
	if strings.HasPrefix(code, deskPrefix) {
		return p.answerDesk(ctx, who, code, body, output)
	}
	var s struct {
		Agent  string `json:"agent_id"`
		Name   string `json:"name"`
		Status string `json:"status"`
		Grants []struct {
			Capability  string          `json:"capability"`
			Status      string          `json:"status"`
			Constraints json.RawMessage `json:"constraints"`
		} `json:"agent_capability_grants"`
	}
	raw, err := who.call(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(code), body, &s)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printRaw(raw)
	}
	fmt.Fprintf(p.stdout, "Agent %s (%q) is %s.\n", s.Agent, s.Name, s.Status)
	for _, g := range s.Grants {
		fmt.Fprintf(p.stdout, "  %s: %s", g.Capability, g.Status)
		if g.Constraints != nil {
			fmt.Fprintf(p.stdout, ", only with %s", shownJSON(g.Constraints))
		}
		fmt.Fprintln(p.stdout)
	}
	return nil
}

// watchEvery is how often watch asks.
const watchEvery = 2 * time.Second

func newApprovalWatch(p *program) *cobra.Command {
	cmd := &cobra.Command{Use: "watch", Short: "Show requests as they come, until interrupted", Args: cobra.NoArgs}
	f := addPersonFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		who, err := p.person(f)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			all, _, err := who.open(cmd.Context())
			if err != nil {
				return err
			}
			p.showNew(all, seen)
			select {
			case <-cmd.Context().Done():
				return nil
			case <-tick.C:
			}
		}
	}
	return cmd
}

// showNew shows what was not seen yet.
func (p *program) showNew(all open, seen map[string]bool) {
	for _, q := range all.Approvals {
		if !seen[q.ID] {
			seen[q.ID] = true
			p.showQuestion(q)
			fmt.Fprintln(p.stdout)
		}
	}
	for _, q := range slices.Concat(all.Confirmations, all.Reviews) {
		if !seen[q.ID] {
			seen[q.ID] = true
			p.showDesk(q)
			fmt.Fprintln(p.stdout)
		}
	}
}

// printRaw writes an answer as it came, on one line.
func (p *program) printRaw(raw json.RawMessage) error {
	_, err := fmt.Fprintf(p.stdout, "%s\n", bytes.TrimSpace(raw))
	return err
}
