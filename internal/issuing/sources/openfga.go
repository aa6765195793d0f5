package sources

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// OpenFGA asks ListObjects. It implements [Source].
type OpenFGA struct {
	Client *http.Client
	URL    string // base URL
	Store  string
	Model  string // "" for the latest
	Type   string // of the objects
}

// Page implements [Source]. ListObjects has no pages: OpenFGA returns as many objects as
// its own limits allow.
func (f OpenFGA) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	user, err := partyOf(q.Principal)
	if err != nil {
		return catalogue.Page{}, err
	}
	ask := map[string]string{"type": f.Type, "relation": q.Action, "user": user.Type + ":" + user.ID}
	if f.Model != "" {
		ask["authorization_model_id"] = f.Model
	}
	var answer struct {
		Objects []string `json:"objects"`
	}
	if err := post(ctx, f.Client, strings.TrimSuffix(f.URL, "/")+"/stores/"+url.PathEscape(f.Store)+"/list-objects", ask, &answer); err != nil {
		return catalogue.Page{}, err
	}
	var p catalogue.Page
	slices.Sort(answer.Objects)
	for _, object := range answer.Objects {
		id, ours := strings.CutPrefix(object, f.Type+":")
		if !ours {
			return catalogue.Page{}, errors.New("the source answers with objects of another type")
		}
		p.Items = append(p.Items, catalogue.Item{ID: id})
	}
	return p, nil
}
