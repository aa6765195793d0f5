package sources

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// AuthZEN asks the resource search of the Authorization API 1.0. It implements [Source].
type AuthZEN struct {
	Client *http.Client
	URL    string // of the search
	Type   string // of the resources
	Size   int    // resources of a page
}

type zenEntity struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
}

type zenQuestion struct {
	Subject  zenEntity `json:"subject"`
	Action   zenAction `json:"action"`
	Resource zenEntity `json:"resource"`
	Page     zenPage   `json:"page"`
}

type zenAction struct {
	Name string `json:"name"`
}

type zenPage struct {
	Token string `json:"token,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// Page implements [Source].
func (a AuthZEN) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	user, err := partyOf(q.Principal)
	if err != nil {
		return catalogue.Page{}, err
	}
	ask := zenQuestion{zenEntity(user), zenAction{q.Action}, zenEntity{Type: a.Type}, zenPage{q.After, a.Size}}
	var answer struct {
		Results []struct {
			Type       string         `json:"type"`
			ID         string         `json:"id"`
			Properties jsontext.Value `json:"properties"`
		} `json:"results"`
		Page struct {
			NextToken string `json:"next_token"`
		} `json:"page"`
	}
	if err := post(ctx, a.Client, a.URL, ask, &answer); err != nil {
		return catalogue.Page{}, err
	}
	p := catalogue.Page{Next: answer.Page.NextToken}
	for _, r := range answer.Results {
		if r.Type != a.Type {
			return catalogue.Page{}, errors.New("the source answers with resources of another type")
		}
		var properties powerbox.Value
		if len(r.Properties) > 0 {
			if properties, err = powerbox.DecodeValue(r.Properties, answerLimits); err != nil {
				return catalogue.Page{}, errors.New("a resource has properties that cannot be read")
			}
		}
		name, _ := textOf(properties, "name")
		p.Items = append(p.Items, resource(r.ID, name, properties, q.Collection))
	}
	return p, nil
}

// textOf is a member that is a text.
func textOf(v powerbox.Value, name string) (string, bool) {
	m, _ := v.Get(name)
	return m.Text()
}
