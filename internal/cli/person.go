package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// PersonFlags say which server a person talks to, and who that person is.
type PersonFlags struct {
	at          *OperatorFlags
	session, as string
}

// AddPersonFlags adds the flags of a person to a command.
func AddPersonFlags(cmd *cobra.Command) *PersonFlags {
	f := PersonFlags{at: AddOperatorFlags(cmd)}
	cmd.Flags().StringVar(&f.session, "session-file", "", "`file` with your session, from powerbox login --out; - is standard input; default: your login at the server")
	cmd.Flags().StringVar(&f.as, "as", "", "built-in `user` to act as; only if the server runs in dev mode")
	return &f
}

// Person is the interface of a running server, for one person.
type Person struct {
	base, as string
	token    func(ctx context.Context) (string, error) // nil for none
	refused  string                                    // advice for a session that the server does not take
	http     *http.Client
}

// Person is the client of the person that the flags name.
func (p *Program) Person(f *PersonFlags) (*Person, error) {
	if f.as != "" && f.session != "" {
		return nil, Usage(errors.New("--session-file and --as name two persons; want one of them"))
	}
	base, err := p.ServerOf(f.at)
	if err != nil {
		return nil, err
	}
	who := &Person{base: base, as: f.as, refused: "log in again with powerbox login, or correct --session-file or --as", http: NewHTTPClient()}
	switch {
	case f.as != "":
	case f.session != "":
		data, err := p.ReadFile(f.session)
		if err != nil {
			return nil, err
		}
		who.token = func(context.Context) (string, error) { return strings.TrimSpace(string(data)), nil }
	default:
		if _, err := p.LoadSession(base); err != nil {
			if errors.Is(err, ErrNoSession) || p.Env("HOME")+p.Env("XDG_CONFIG_HOME") == "" {
				err = Usage(fmt.Errorf("you are not logged in at %s; want --session-file FILE, which powerbox login --out FILE writes, or, if the server runs with --dev, --as USER", base))
			}
			return nil, err
		}
		who.token = func(ctx context.Context) (string, error) { return p.sessionToken(ctx, base) }
		who.refused = "your login is refused for people's own requests, unless approvals.clients has its client; give another session with --session-file (docs/how-to/approving.md)"
	}
	return who, nil
}

// problemOf is the refusal of a provider.
type problemOf struct {
	Code    string `json:"error"`
	Message string `json:"message"`
}

// Call makes one call. What it is answered with goes into into, and is returned as
// it came.
func (w *Person) Call(ctx context.Context, method, path string, body, into any) (json.RawMessage, error) {
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
	if w.token != nil {
		bearer, err := w.token(ctx)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	if w.as != "" {
		request.Header.Set(operators.DevUserHeader, w.as)
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
		if response.StatusCode == http.StatusUnauthorized {
			err = fmt.Errorf("%w; %s", err, w.refused)
		}
		if response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized {
			err = Exit(ExitDenied, err)
		}
		return nil, err
	}
	return data, json.Unmarshal(data, into)
}

// PrintRaw writes an answer as it came, on one line.
func (p *Program) PrintRaw(raw json.RawMessage) error {
	_, err := fmt.Fprintf(p.Stdout, "%s\n", bytes.TrimSpace(raw))
	return err
}

// Hosts are those of a person, as the server says.
type Hosts struct {
	Hosts []struct {
		ID     string   `json:"host_id"`
		Name   string   `json:"name"`
		User   string   `json:"user_id"`
		Status string   `json:"status"`
		Asked  []string `json:"asked_for"`
		Agents []struct {
			ID     string `json:"agent_id"`
			Name   string `json:"name"`
			Status string `json:"status"`
			Grants []struct {
				Capability  string          `json:"capability"`
				Status      string          `json:"status"`
				Constraints json.RawMessage `json:"constraints"`
			} `json:"agent_capability_grants"`
		} `json:"agents"`
	} `json:"hosts"`
}
