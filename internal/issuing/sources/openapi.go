package sources

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/wire/openapi"
)

// OpenAPI asks an operation of an HTTP interface. It implements [Source].
type OpenAPI struct {
	Client    *http.Client
	Operation openapi.Operation
	Principal string // its parameter for the name of the user
	Cursor    string // its parameter for the cursor, "" for none
	Items     string // JSON pointer to the list, "" for the whole answer
	Next      string // JSON pointer to the next cursor
	ID, Name  string // members of a resource
}

// Check returns the error of settings that do not fit the operation.
func (o OpenAPI) Check() error {
	if o.Operation.Method != http.MethodGet {
		return fmt.Errorf("operation: it is a %s; want a GET, which changes nothing", o.Operation.Method)
	}
	for key, name := range map[string]string{"principal": o.Principal, "cursor": o.Cursor} {
		if name != "" && !slices.Contains(o.Operation.Query, name) && !slices.Contains(o.Operation.Header, name) && !strings.Contains(o.Operation.URL, "{"+name+"}") {
			return fmt.Errorf("%s: the operation has no parameter %q in its path, query or header", key, name)
		}
	}
	if rest := strings.ReplaceAll(o.Operation.URL, "{"+o.Principal+"}", ""); strings.Contains(rest, "{") {
		return errors.New("operation: its path has a parameter besides that for the principal")
	}
	for key, pointer := range map[string]string{"items": o.Items, "next": o.Next} {
		if pointer != "" && !strings.HasPrefix(pointer, "/") {
			return fmt.Errorf("%s is %q; want a JSON pointer such as /data", key, pointer)
		}
	}
	return nil
}

// Page implements [Source].
func (o OpenAPI) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	r, err := o.request(ctx, q)
	if err != nil {
		return catalogue.Page{}, err
	}
	data, err := do(o.Client, r)
	if err != nil {
		return catalogue.Page{}, err
	}
	answer, err := powerbox.DecodeValue(data, answerLimits)
	if err != nil {
		return catalogue.Page{}, errors.New("the answer of the source is no JSON that can be read")
	}
	list, ok := at(answer, o.Items).Elements()
	if !ok {
		return catalogue.Page{}, errors.New("the answer of the source has no list of resources at items")
	}
	var p catalogue.Page
	kind := powerbox.KindNull
	for _, one := range list {
		id, ok := idOf(one, o.ID)
		if !ok {
			return catalogue.Page{}, errors.New("a resource of the source has no id that is a text or a whole number")
		}
		// The number 7 and the text "7" would become one id.
		v, _ := one.Get(o.ID)
		if kind != powerbox.KindNull && v.Kind() != kind {
			return catalogue.Page{}, errors.New("the ids of the source are of two kinds, texts and numbers")
		}
		kind = v.Kind()
		name := ""
		if o.Name != "" {
			name, _ = textOf(one, o.Name)
		}
		p.Items = append(p.Items, resource(id, name, one, q.Collection))
	}
	if o.Cursor != "" {
		switch next := at(answer, o.Next); next.Kind() {
		case powerbox.KindNull:
		case powerbox.KindString, powerbox.KindNumber:
			var text bool
			if p.Next, text = next.Text(); !text {
				p.Next = next.String()
			}
		default:
			return catalogue.Page{}, errors.New("the cursor of the source is no text")
		}
	}
	return p, nil
}

// request puts principal and cursor where the operation has them, encoded.
func (o OpenAPI) request(ctx context.Context, q catalogue.Question) (*http.Request, error) {
	if !utf8.ValidString(q.Principal) || strings.ContainsFunc(q.Principal+q.After, func(r rune) bool { return r < ' ' || r == 0x7f }) || q.Principal == "." || q.Principal == ".." {
		return nil, errors.New("the name of the principal or a cursor has control characters")
	}
	address, query := o.Operation.URL, url.Values{}
	header := http.Header{}
	for name, value := range map[string]string{o.Principal: q.Principal, o.Cursor: q.After} {
		switch {
		case name == "" || value == "":
		case strings.Contains(address, "{"+name+"}"):
			address = strings.ReplaceAll(address, "{"+name+"}", url.PathEscape(value))
		case slices.Contains(o.Operation.Query, name):
			query.Set(name, value)
		default:
			header.Set(name, value)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("the URL of the source cannot be used")
	}
	r.Header, r.URL.RawQuery = header, query.Encode()
	return r, nil
}

// at follows a JSON pointer through objects; null if it leads nowhere.
func at(v powerbox.Value, pointer string) powerbox.Value {
	for name := range jsontext.Pointer(pointer).Tokens() {
		v, _ = v.Get(name)
	}
	return v
}

// idOf is an id as text: a text as it is, or a plain whole number.
func idOf(v powerbox.Value, name string) (string, bool) {
	id, _ := v.Get(name)
	if text, ok := id.Text(); ok {
		return text, true
	}
	return id.String(), id.Kind() == powerbox.KindNumber && id.IsPlainInteger()
}
