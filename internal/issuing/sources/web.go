package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// maxAnswer is the size of the largest answer over HTTP.
const maxAnswer = 4 << 20

// answerLimits are those of an answer whose members are read as values.
var answerLimits = powerbox.Limits{Bytes: maxAnswer, Depth: 32, Nodes: 1 << 18}

// post sends JSON and reads JSON. It follows no redirect.
func post(ctx context.Context, client *http.Client, url string, ask, into any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return errors.New("the question cannot be written as JSON")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the source cannot be used")
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := do(client, r)
	if err != nil {
		return err
	}
	return decode(answer, into)
}

// do returns the body of an answer of status 200. Errors have no text of the source.
func do(client *http.Client, r *http.Request) ([]byte, error) {
	r.Header.Set("Accept", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return nil, errors.New("the source cannot be reached, or did not answer in time")
	}
	defer answer.Body.Close()
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch {
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the source answers with the HTTP status %d", answer.StatusCode)
	case kind != "application/json" && !strings.HasSuffix(kind, "+json"):
		return nil, errors.New("the answer of the source is not application/json")
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, errors.New("the answer of the source ends early")
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("the answer of the source is larger than %d bytes", maxAnswer)
	}
	return data, nil
}

// decode reads one JSON value without repeated names. Unknown members are ignored.
func decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into, jsontext.AllowDuplicateNames(false)); err != nil {
		return errors.New("the answer of the source has not the form of its protocol")
	}
	return nil
}

// party is a principal as relationship systems name it. The name user:alice is alice of
// type user; a name without a colon is of type user.
type party struct{ Type, ID string }

// partyOf fails for a name that such systems would read as another one: as all users, as
// the members of a group, or as a relation.
func partyOf(principal string) (party, error) {
	kind, id, ok := strings.Cut(principal, ":")
	if !ok {
		kind, id = "user", principal
	}
	if kind == "" || id == "" || strings.ContainsFunc(kind+id, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`:#*"`, r)
	}) {
		return party{}, errors.New("the name of the principal cannot be said in the source's form: want TYPE:ID in visible ASCII without ':', '#', '*' and '\"'")
	}
	return party{kind, id}, nil
}

// resource is one resource as JSON: its id, and further members by name.
func resource(id, name string, members powerbox.Value, c catalogue.Collection) catalogue.Item {
	item := catalogue.Item{ID: id, Name: name, Attributes: map[string]powerbox.Value{}}
	for attribute := range c.Attributes {
		if v, ok := members.Get(attribute); ok && v.Kind() != powerbox.KindNull {
			item.Attributes[attribute] = v
		}
	}
	return item
}
