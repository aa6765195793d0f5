package console

import (
	"errors"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/people"
)

// Person returns the person whose browser sent a request, and false where the person has
// to log in first.
func (k *Console) Person(r *http.Request) (people.Person, bool, error) {
	who, err := k.person(&visit{r: r, session: k.sessions.of(k.cookie(r, sessionCookie))})
	if errors.Is(err, errLogin) {
		return who, false, nil
	}
	return who, err == nil, err
}

// Refuse answers a request for a page of another part of the server with a page that
// explains the error.
func (k *Console) Refuse(w http.ResponseWriter, r *http.Request, err error) { k.refuse(w, r, err) }

// connectedPage says that an agent is called with the visitor's account elsewhere.
type connectedPage struct{ Agent string }

// Connected says that a consent is kept.
func (k *Console) Connected(w http.ResponseWriter, r *http.Request, agent string) error {
	v := &visit{w: w, r: r, session: k.sessions.of(k.cookie(r, sessionCookie)), Language: k.language(r)}
	return k.show(v, "connected", connectedPage{agent})
}
