package api

import (
	"context"
	"net/http"
)

// tokenHolder is the operator on record for a call with the operator's token.
const tokenHolder = "operator"

type operatorKey struct{}

// As returns the interface for calls in this process that have been authenticated
// already, by the pages for operators. Everything that they change is on record under
// the person's name.
func (a *Admin) As(person string) http.Handler {
	routes := a.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if person == "" { // no person is not the holder of the token
			problem(w, http.StatusUnauthorized, "no person is named")
			return
		}
		routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operatorKey{}, person)))
	})
}

// operator names who makes a call, for the record.
func operator(r *http.Request) string {
	if person, ok := r.Context().Value(operatorKey{}).(string); ok {
		return person
	}
	return tokenHolder
}
