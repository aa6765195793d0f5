package gateway

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// Tokens of pages are the agent's own, sealed for the caller: their contents
// are private, and no caller continues another one's list. They are the
// one thing in a request that is not forwarded as it came.

// maxPages is how many pages of the agent are asked for until one task of the
// caller's is found. An empty page with a token would tell how many tasks others have.
const maxPages = 32

// errTooMany is a list in whose first pages no task is the caller's.
var errTooMany = errors.New("none of the newest tasks of the agent is the caller's")

// codeTooMany is the denial of such a list.
const codeTooMany = "list_too_long"

// codePageToken is the reason for a token of a page that is not the caller's.
const codePageToken = "page_token"

var errPageToken = errors.New("params.pageToken is not one that this caller was given here; begin again without")

// paged reports whether the pages of a call are looked at.
func (x *decoded) paged() bool { return x.call.Method == a2a.ListTasks && x.mode != gate.Observe }

// openPage puts the agent's own token into a call that continues from a page, and
// an unknown context instead of one that is not the caller's: the
// agent answers as for any that does not exist.
func (g *Gateway) openPage(x *forwardable, restart bool) error {
	if !x.paged() {
		return nil
	}
	known, err := g.knowsContext(x.decided)
	if err == nil && !known {
		var nobodys string
		if nobodys, err = g.config.Gate.NewID(); err == nil {
			err = x.with("contextId", "context_id", nobodys)
		}
	}
	if err != nil || x.call.PageToken == "" {
		return err
	}
	if restart {
		return x.atPage("")
	}
	token, err := g.unsealPage(x.decided, x.call.PageToken)
	if err != nil {
		return err
	}
	return x.atPage(token)
}

// atPage makes the forwarded call ask for a page of the agent.
func (x *forwardable) atPage(token string) error { return x.with("pageToken", "page_token", token) }

// with sets one parameter of the forwarded call, by its name and by that of its
// field in protobuf.
func (x *forwardable) with(name, field, text string) error {
	var err error
	switch x.call.Binding {
	case a2a.HTTPJSON:
		query := x.query
		if query == "" {
			query = x.call.Written.Query
		}
		x.query = a2a.QueryWithParam(query, name, text)
	case a2a.GRPC:
		message, wrong := a2apb.Unframe(x.body)
		if err = wrong; err == nil {
			if message, err = a2apb.WithParam(x.call.Wire, message, field, text); err == nil {
				x.body = a2apb.Frame(message)
			}
		}
	default:
		x.body, err = a2a.WithParam(x.body, name, field, text)
	}
	return err
}

// page cuts the tasks of others out of a page, and asks for further ones until
// there is a task of the caller's or none is left.
func (g *Gateway) page(r *http.Response, x *forwardable, body []byte) ([]byte, error) {
	for n := 1; ; n++ {
		kept, p, err := g.cut(x.decided, body)
		if err != nil {
			return nil, err
		}
		if p.Next == "" {
			return g.withOwn(x, kept)
		}
		if p.Tasks == 0 && len(x.own) == 0 && n == maxPages {
			return nil, errTooMany
		}
		if p.Tasks > 0 || len(x.own) > 0 || x.carries != nil { // only the proxy calls the agent
			if kept, err = g.withNext(x.decided, kept, p.Next); err != nil {
				return nil, err
			}
			return g.withOwn(x, kept)
		}
		if body, err = g.nextPage(r.Request, x, p.Next); err != nil {
			return nil, err
		}
	}
}

// knowsContext reports whether the context whose tasks are listed is the
// caller's, or none is named.
func (g *Gateway) knowsContext(x *decided) (bool, error) {
	if x.call.Context == "" {
		return true, nil
	}
	o, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, x.call.Tenant, contextNamed(x.call.Context).key())
	return known && o == g.ownerOf(x.decoded, x.verdict.Held), err
}

// cut filters one page; in gRPC, of its message.
func (g *Gateway) cut(x *decided, body []byte) (kept []byte, p a2a.Page, err error) {
	mine := g.mine(x.request.Context(), x)
	if x.call.Binding == a2a.GRPC {
		if kept, err = a2apb.FilterTasks(x.call.Wire, body, mine); err == nil {
			p, err = a2apb.PageOf(x.call.Wire, kept)
		}
		return kept, p, err
	}
	if kept, err = a2a.FilterTasks(body, mine); err == nil {
		p, err = a2a.PageOf(kept)
	}
	return kept, p, err
}

func (g *Gateway) withNext(x *decided, body []byte, next string) ([]byte, error) {
	token := g.sealPage(x, next)
	if x.call.Binding == a2a.GRPC {
		return a2apb.WithNextPage(x.call.Wire, body, token)
	}
	return a2a.WithNextPage(body, token)
}

// nextPage asks the agent again, as it was asked, for another page.
func (g *Gateway) nextPage(asked *http.Request, x *forwardable, token string) ([]byte, error) {
	next := *x
	next.query = ""
	if err := next.atPage(token); err != nil {
		return nil, err
	}
	again := asked.Clone(asked.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(next.body)), int64(len(next.body))
	if x.binding == a2a.HTTPJSON {
		again.URL.RawQuery = next.queryBehind()
	}
	r, err := g.transport(x).RoundTrip(again)
	if err != nil {
		return nil, err
	}
	body, err := whole(r)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the next page is answered with %d", r.StatusCode)
	}
	if x.call.Binding == a2a.GRPC {
		return a2apb.Unframe(body)
	}
	return body, nil
}

// pageOwner names for whom a token is sealed, and in which tenant. No agent's id
// begins like what stands before a tenant.
func (g *Gateway) pageOwner(x *decided) []byte {
	o := g.ownerOf(x.decoded, x.verdict.Held)
	whose := x.ID + "\x00" + o.Root + "\x00" + o.Principal + "\x00" + o.Holder
	if t := x.call.Tenant; t != "" {
		whose = "\x00" + strconv.Itoa(len(t)) + "\x00" + t + "\x00" + whose
	}
	return []byte(whose)
}

func (g *Gateway) sealPage(x *decided, token string) string {
	sealed := g.config.Pages.Seal(nil, nil, []byte(token), g.pageOwner(x)) //nolint:gosec // the nonce is random, and Pages puts it in front
	return base64.RawURLEncoding.EncodeToString(sealed)
}

func (g *Gateway) unsealPage(x *decided, token string) (string, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(sealed) >= g.config.Pages.Overhead() {
		var plain []byte
		if plain, err = g.config.Pages.Open(nil, nil, sealed, g.pageOwner(x)); err == nil {
			return string(plain), nil
		}
	}
	return "", errPageToken
}
