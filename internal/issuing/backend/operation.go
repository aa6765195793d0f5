package backend

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Operation is one request of an HTTP interface, such as OpenAPI describes: where
// each argument of a call goes.
type Operation struct {
	HTTP
	Method string
	URL    string // with {name} for arguments in the path
	Query  []string
	Header []string
	Body   []string // arguments that are the members of a JSON object
	Whole  string   // argument that is the body as it is, "" for none
	Token  string   // bearer token of the service, "" for none
}

var placeholder = regexp.MustCompile(`\{([^{}/]*)\}`)

// ownHeaders are set by anyone who makes the request, and never by arguments.
var ownHeaders = []string{
	"Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Transfer-Encoding", "Upgrade", "Powerbox-Context", "Powerbox-Decision",
}

// Check returns the errors of an operation: every argument goes to one place,
// and arguments choose neither where a request goes nor who makes it.
func (o Operation) Check() error {
	whole, err := url.Parse(placeholder.ReplaceAllString(o.URL, "x"))
	rest := o.URL
	if i := strings.Index(rest, "://"); i >= 0 {
		rest = rest[i+3:]
	}
	host, path, _ := strings.Cut(rest, "/")
	switch {
	case err != nil || whole.Host == "" || whole.User != nil || whole.Fragment != "" || whole.Scheme != "https" && whole.Scheme != "http":
		return fmt.Errorf("url %q; want an absolute http or https URL, with {name} for arguments in its path", o.URL)
	case strings.ContainsAny(host, "{}") || strings.ContainsAny(whole.RawQuery, "{}") || strings.Contains(o.URL, "?") && strings.Contains(o.URL[strings.Index(o.URL, "?"):], "{"):
		return fmt.Errorf("url %q has an argument outside of its path", o.URL)
	case strings.ContainsAny(placeholder.ReplaceAllString(path, ""), "{}"):
		return fmt.Errorf("url %q has a brace that is no {name}", o.URL)
	case o.Whole != "" && len(o.Body) > 0:
		return errors.New("body and body_argument; want one")
	case (o.Whole != "" || len(o.Body) > 0) && (o.Method == http.MethodGet || o.Method == http.MethodHead):
		return fmt.Errorf("a body with method %s", o.Method)
	}
	for _, name := range o.Header {
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) || strings.HasPrefix(http.CanonicalHeaderKey(name), "Powerbox-") {
			return fmt.Errorf("header %q is not for arguments to set", name)
		}
	}
	all := slices.Concat(o.inPath(), o.Query, o.Header, o.Body)
	if o.Whole != "" {
		all = append(all, o.Whole)
	}
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) || slices.Contains(all, "") {
		return errors.New("an argument that goes to two places, or has no name")
	}
	return nil
}

func (o Operation) inPath() (names []string) {
	for _, m := range placeholder.FindAllStringSubmatch(o.URL, -1) {
		names = append(names, m[1])
	}
	return names
}

// Execute implements [provider.Backend].
func (o Operation) Execute(ctx context.Context, e provider.Execution) (provider.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(max(o.Time, time.Second), cancel)
	streams := false
	defer func() {
		if late.Stop(); !streams {
			cancel()
		}
	}()
	to, header, body, refused := o.compose(e.Arguments)
	if refused != nil {
		return provider.Result{Failed: refused}, nil
	}
	req, err := o.request(ctx, o.Method, to, e, body)
	if err != nil {
		return provider.Result{}, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	req.Header.Set("Accept", "application/json, text/event-stream;q=0.9, text/plain;q=0.5")
	bearer(req.Header, o.Token)
	resp, err := o.Client.Do(req)
	if err != nil {
		return provider.Result{}, fmt.Errorf("backend: %w", err)
	}
	if streams = isStream(resp); streams {
		return provider.Result{Stream: newStream(resp.Body, cancel, o.Limit)}, nil
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or useless
	data, err := o.read(resp)
	if err != nil {
		return provider.Result{}, err
	}
	return answered(resp, data)
}

// Poll implements [provider.Backend]. Nothing here continues behind.
func (o Operation) Poll(context.Context, provider.Execution, string) (provider.Result, error) {
	return provider.Result{}, errors.New("backend: an operation has no jobs")
}

// compose puts every argument in its place. One that has none is refused: it would
// have been judged, and then not be there.
func (o Operation) compose(arguments powerbox.Value) (to string, header map[string]string, body []byte, refused *agentauth.Error) {
	members, _ := arguments.Members()
	path, query, fields := map[string]string{}, url.Values{}, []powerbox.Member{}
	header = map[string]string{}
	inPath := o.inPath()
	for _, m := range members {
		switch {
		case slices.Contains(o.Body, m.Name):
			fields = append(fields, m)
		case m.Name == o.Whole && o.Whole != "":
			body = m.Value.AppendJSON(nil)
		case slices.Contains(o.Query, m.Name):
			for _, one := range several(m.Value) {
				text, ok := plainText(one)
				if !ok {
					return "", nil, nil, misfit(m.Name)
				}
				query.Add(m.Name, text)
			}
		case slices.Contains(inPath, m.Name), slices.Contains(o.Header, m.Name):
			text, ok := plainText(m.Value)
			if !ok || strings.ContainsAny(text, "\r\n\x00") {
				return "", nil, nil, misfit(m.Name)
			}
			if slices.Contains(o.Header, m.Name) {
				header[m.Name] = text
				continue
			}
			if text == "" || text == "." || text == ".." {
				return "", nil, nil, misfit(m.Name) // another path than the one that was judged
			}
			path[m.Name] = url.PathEscape(text)
		default:
			return "", nil, nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "argument %q is none that the operation takes", clipped(m.Name))
		}
	}
	for _, name := range inPath {
		if path[name] == "" {
			return "", nil, nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "argument %q is missing", name)
		}
	}
	to = placeholder.ReplaceAllStringFunc(o.URL, func(p string) string { return path[p[1:len(p)-1]] })
	if encoded := query.Encode(); encoded != "" {
		separator := "?"
		if strings.Contains(to, "?") {
			separator = "&"
		}
		to += separator + encoded
	}
	if len(o.Body) > 0 {
		body = powerbox.Object(fields...).AppendJSON(nil)
	}
	return to, header, body, nil
}

func misfit(name string) *agentauth.Error {
	return agentauth.Errorf(agentauth.CodeInvalidRequest, "argument %q cannot be sent where it belongs; want a text, a number, or true or false", clipped(name))
}

func several(v powerbox.Value) []powerbox.Value {
	if list, ok := v.Elements(); ok {
		return list
	}
	return []powerbox.Value{v}
}

// plainText is a value as in a URL.
func plainText(v powerbox.Value) (string, bool) {
	switch v.Kind() {
	case powerbox.KindString:
		return v.Text()
	case powerbox.KindNumber, powerbox.KindBool:
		return v.String(), true
	default:
		return "", false
	}
}

// answered reads the answer of an HTTP interface.
func answered(resp *http.Response, data []byte) (provider.Result, error) {
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: len(data), Depth: 64, Nodes: maxNodes})
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		return provider.Result{Failed: failed(resp.StatusCode, v)}, nil
	case resp.StatusCode >= http.StatusMultipleChoices:
		return provider.Result{}, fmt.Errorf("backend: an answer of status %d; redirects are not followed", resp.StatusCode)
	case len(data) == 0:
		return provider.Result{HasData: true}, nil
	case err == nil:
		return provider.Result{Data: v, HasData: true}, nil
	case strings.HasPrefix(kind, "text/") && utf8.Valid(data):
		return provider.Result{Data: powerbox.String(string(data)), HasData: true}, nil
	}
	return provider.Result{}, fmt.Errorf("backend: an answer of type %q, which is neither JSON nor text", clipped(kind))
}

func clipped(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
