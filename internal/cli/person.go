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
	cmd.Flags().StringVar(&f.session, "session-file", "", "`file` with your session, from powerbox login --out; - is standard input")
	cmd.Flags().StringVar(&f.as, "as", "", "built-in `user` to act as; only if the server runs in dev mode")
	return &f
}

// Person is the interface of a running server, for one person.
type Person struct {
	base, token, as string
	http            *http.Client
}

// Person is the client of the person that the flags name.
func (p *Program) Person(f *PersonFlags) (*Person, error) {
	if (f.as == "") == (f.session == "") {
		return nil, Usage(errors.New("want --session-file FILE, which powerbox login --out FILE writes, or, if the server runs with --dev, --as USER"))
	}
	base, err := p.ServerOf(f.at)
	if err != nil {
		return nil, err
	}
	who := &Person{base: base, as: f.as, http: NewHTTPClient()}
	if f.session != "" {
		data, err := p.ReadFile(f.session)
		if err != nil {
			return nil, err
		}
		who.token = strings.TrimSpace(string(data))
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
	if w.token != "" {
		request.Header.Set("Authorization", "Bearer "+w.token)
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
			err = fmt.Errorf("%w; log in again with powerbox login, or correct --session-file or --as", err)
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
	Document(p.Stdout, bytes.TrimSpace(raw))
	return nil
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
