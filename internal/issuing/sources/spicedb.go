package sources

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// SpiceDB asks LookupResources of its HTTP gateway. It implements [Source].
type SpiceDB struct {
	Client *http.Client
	URL    string // base URL
	Type   string // of the objects
	Size   int    // objects of a page
}

type spiceObject struct {
	ObjectType string `json:"objectType"`
	ObjectID   string `json:"objectId"`
}

type spiceToken struct {
	Token string `json:"token"`
}

type spiceQuestion struct {
	Consistency struct {
		FullyConsistent bool `json:"fullyConsistent"`
	} `json:"consistency"`
	ResourceObjectType string `json:"resourceObjectType"`
	Permission         string `json:"permission"`
	Subject            struct {
		Object spiceObject `json:"object"`
	} `json:"subject"`
	OptionalLimit  int         `json:"optionalLimit"`
	OptionalCursor *spiceToken `json:"optionalCursor,omitempty"`
}

// spiceLine is one line of the stream.
type spiceLine struct {
	Result *struct {
		ResourceObjectID  string     `json:"resourceObjectId"`
		Permissionship    string     `json:"permissionship"`
		AfterResultCursor spiceToken `json:"afterResultCursor"`
	} `json:"result"`
}

// spiceHas says that the permission holds under no further condition.
const spiceHas = "LOOKUP_PERMISSIONSHIP_HAS_PERMISSION"

// Page implements [Source].
func (s SpiceDB) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	user, err := partyOf(q.Principal)
	if err != nil {
		return catalogue.Page{}, err
	}
	ask := spiceQuestion{ResourceObjectType: s.Type, Permission: q.Action, OptionalLimit: s.Size}
	ask.Consistency.FullyConsistent = true
	ask.Subject.Object = spiceObject{user.Type, user.ID}
	if q.After != "" {
		ask.OptionalCursor = &spiceToken{q.After}
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return catalogue.Page{}, errors.New("the question cannot be written as JSON")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.URL, "/")+"/v1/permissions/resources", bytes.NewReader(body))
	if err != nil {
		return catalogue.Page{}, errors.New("the URL of the source cannot be used")
	}
	r.Header.Set("Content-Type", "application/json")
	data, err := do(s.Client, r)
	if err != nil {
		return catalogue.Page{}, err
	}
	return s.read(data)
}

// read reads a JSON value a line. A line that is no result is an error of SpiceDB.
func (s SpiceDB) read(data []byte) (catalogue.Page, error) {
	var p catalogue.Page
	results := 0
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var l spiceLine
		if err := decode(line, &l); err != nil {
			return catalogue.Page{}, err
		}
		if l.Result == nil {
			return catalogue.Page{}, errors.New("the stream of the source ends with an error")
		}
		results++
		if p.Next = l.Result.AfterResultCursor.Token; l.Result.Permissionship == spiceHas {
			p.Items = append(p.Items, catalogue.Item{ID: l.Result.ResourceObjectID})
		}
	}
	if results < s.Size {
		p.Next = ""
	}
	return p, nil
}
