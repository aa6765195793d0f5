package quarterly

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// documents is the agent that keeps the library.
type documents struct {
	store   *library
	handles func(in Incoming) (map[string]string, bool, error)
}

func (d documents) skills() []skill {
	return []skill{
		{"search_documents", "Search documents", "Finds documents by words of their title: {query, collection?, quarter?}", d.search, nil},
		{"list_documents", "List documents", "Lists documents: {collection?, quarter?}", d.list, nil},
		{"retrieve_document", "Retrieve a document", "Gives the text of one document: {id} or {resourceHandle}", d.retrieve, nil},
		{"create_document", "Create a document", "Adds a document: {title, text, collection?, quarter?}", d.create, nil},
		{"delete_document", "Delete a document", "Removes one document: {id} or {resourceHandle}", d.remove, nil},
		{"follow_document", "Follow a document", "Gives the lines of one document as they are written, for some seconds: {id} or {resourceHandle}", nil, d.follow},
	}
}

func (d documents) list(_ context.Context, in Incoming, args map[string]any) (Answer, error) {
	if err := onlyArguments(args, "collection", "quarter"); err != nil {
		return Answer{}, err
	}
	docs, err := d.matching(in, args)
	return listing(docs), err
}

func (d documents) search(_ context.Context, in Incoming, args map[string]any) (Answer, error) {
	if err := onlyArguments(args, "query", "collection", "quarter"); err != nil {
		return Answer{}, err
	}
	docs, err := d.matching(in, args)
	if err != nil {
		return Answer{}, err
	}
	words := strings.Fields(strings.ToLower(stringArgument(args, "query")))
	hits := func(n named) int {
		count := 0
		for title := range strings.FieldsSeq(strings.ToLower(n.Title)) {
			if slices.Contains(words, title) {
				count++
			}
		}
		return count
	}
	docs = slices.DeleteFunc(docs, func(n named) bool { return hits(n) == 0 })
	slices.SortStableFunc(docs, func(a, b named) int { return cmp.Compare(hits(b), hits(a)) })
	return listing(docs), nil
}

func (d documents) retrieve(_ context.Context, in Incoming, args map[string]any) (Answer, error) {
	doc, err := d.find(in, args)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: doc.Text, Data: doc.entry()}, nil
}

// Followed documents gain a line every pace, and no more than lines of them.
const (
	pace  = 20 * time.Millisecond
	lines = 500
)

func (d documents) follow(ctx context.Context, in Incoming, args map[string]any) iter.Seq2[Answer, error] {
	return func(yield func(Answer, error) bool) {
		doc, err := d.find(in, args)
		if err != nil {
			yield(Answer{}, err)
			return
		}
		written := strings.FieldsFunc(doc.Text, func(r rune) bool { return r == '\n' })
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for n := range lines {
			if !yield(Answer{Text: written[n%len(written)]}, nil) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

func (d documents) remove(_ context.Context, in Incoming, args map[string]any) (Answer, error) {
	doc, err := d.find(in, args)
	if err != nil {
		return Answer{}, err
	}
	d.store.remove(doc.ID)
	return Answer{Text: "Deleted " + doc.Title + "."}, nil
}

func (d documents) create(_ context.Context, in Incoming, args map[string]any) (Answer, error) {
	if err := onlyArguments(args, "title", "text", "collection", "quarter"); err != nil {
		return Answer{}, err
	}
	title := stringArgument(args, "title")
	if title == "" {
		return Answer{}, invalid("argument \"title\" is missing")
	}
	doc := Document{
		ID: strings.ToLower(strings.Join(strings.Fields(title), "-")), Title: title, Text: stringArgument(args, "text"),
		Collection: stringArgument(args, "collection"), Quarter: stringArgument(args, "quarter"), Owner: in.Agent,
	}
	if !d.store.add(doc) {
		return Answer{}, invalid("there is a document with that title, choose another one")
	}
	return Answer{Text: "Created " + title + "."}, nil
}

// named is a document with the name by which the caller may speak of it: a handle, or the id where callers use ids.
type named struct {
	Document
	key, name string
}

func (n named) entry() map[string]any {
	return map[string]any{n.key: n.name, "title": n.Title, "collection": n.Collection, "quarter": n.Quarter}
}

// reach is the documents that the request can touch, in order of id.
func (d documents) reach(in Incoming) ([]named, error) {
	handles, bounded, err := d.handles(in)
	if err != nil {
		return nil, fmt.Errorf("documents cannot tell what this request may touch: %w", err)
	}
	var all []named
	for _, doc := range d.store.all() {
		if !bounded {
			all = append(all, named{doc, "id", doc.ID})
			continue
		}
		for _, h := range slices.Sorted(maps.Keys(handles)) {
			if handles[h] == doc.ID {
				all = append(all, named{doc, "resourceHandle", h})
			}
		}
	}
	return all, nil
}

func (d documents) matching(in Incoming, args map[string]any) ([]named, error) {
	docs, err := d.reach(in)
	differs := func(argument, attribute string) bool {
		want := stringArgument(args, argument)
		return want != "" && want != attribute
	}
	return slices.DeleteFunc(docs, func(n named) bool {
		return differs("collection", n.Collection) || differs("quarter", n.Quarter)
	}), err
}

// find gives the same answer for a document that does not exist and for one that the request cannot touch.
func (d documents) find(in Incoming, args map[string]any) (named, error) {
	if err := onlyArguments(args, "id", "resourceHandle"); err != nil {
		return named{}, err
	}
	if len(args) != 1 {
		return named{}, invalid("name one document, by \"id\" or by \"resourceHandle\"")
	}
	docs, err := d.reach(in)
	if err != nil {
		return named{}, err
	}
	for _, n := range docs {
		if args[n.key] == n.name {
			return n, nil
		}
	}
	return named{}, invalid("document not found")
}

func listing(docs []named) Answer {
	entries := []any{}
	titles := make([]string, 0, len(docs))
	for _, n := range docs {
		entries = append(entries, n.entry())
		titles = append(titles, n.Title)
	}
	return Answer{Text: strings.Join(titles, "\n"), Data: map[string]any{"documents": entries}}
}
