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
