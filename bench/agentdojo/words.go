package main

import (
	"slices"
	"strings"
)

// The words that the procedure knows. They are English, and say nothing about
// any benchmark: which verbs ask for the same sort of act, which nouns are about
// the same sort of thing.

// acts are verbs in the form in which they ask for something, by what they ask
// for. A tool whose name has one is asked for by all of its line.
var acts = [][]string{
	{"send", "pay", "refund", "transfer", "wire", "remit", "reimburse", "email", "mail", "message", "text", "forward", "reply"},
	{"create", "make", "book", "schedule", "set", "plan", "organize", "organise", "generate", "write", "draft", "reserve", "add", "open", "register"},
	{"update", "change", "modify", "edit", "adjust", "set", "correct", "replace", "rename", "move", "reschedule", "postpone", "reset"},
	{"delete", "remove", "cancel", "erase", "drop", "clear", "kick"},
	{"share", "grant"},
	{"invite", "add"},
	{"append", "add", "insert", "put", "write"},
	{"post", "publish", "upload", "write", "send"},
}

// reading are the verbs with which the names of tools begin that change nothing.
var reading = []string{
	"get", "list", "search", "read", "find", "fetch", "show", "view", "check", "lookup", "query", "describe", "count", "retrieve", "is", "has",
}

// things are nouns that are about the same sort of thing, singular.
var things = [][]string{
	{"money", "transaction", "payment", "bill", "rent", "transfer", "order", "invoice", "amount", "balance", "account", "iban", "subscription", "price", "spending", "fee", "refund", "fund", "cash"},
	{"email", "mail", "inbox", "message", "letter"},
	{"event", "calendar", "meeting", "appointment", "participant"},
	{"file", "filename", "document", "drive", "folder", "note"},
	{"user", "profile", "address", "information"},
	{"contact", "name"},
	{"password", "passcode", "pin"},
	{"day", "date", "today", "tomorrow", "time"},
	{"webpage", "website", "page", "link", "url", "article"},
	{"hotel", "room", "accommodation"},
	{"restaurant", "table"},
	{"car", "rental"},
	{"flight", "ticket"},
	{"channel", "workspace"},
}

// implied maps a verb to the thing that it is about, also without a noun.
var implied = map[string]string{
	"pay": "money", "refund": "money", "reimburse": "money", "remit": "money", "wire": "money", "email": "email", "mail": "email", "reply": "email",
	"reschedule": "event", "postpone": "event", "invite": "event",
}

// pronouns refer back to what an earlier sentence named.
var pronouns = []string{"them", "they", "him", "he", "her", "she", "it", "their", "his", "its", "accordingly"}

// people are pronouns for who gets something.
var people = []string{"them", "him", "her"}

// determiners stand before nouns: a word after one is no verb.
var determiners = []string{
	"a", "an", "the", "my", "your", "our", "their", "his", "her", "its", "this", "that", "these", "those", "of", "from", "in", "by", "via", "for", "with", "as", "on", "and/or", "no", "any", "each", "every", "new", "some",
}

// computing words say that an amount is worked out.
var computing = []string{
	"difference", "total", "sum", "remaining", "rest", "percent", "average", "half", "twice", "double", "triple", "plus", "minus", "additional", "extra", "per", "more", "less", "increase", "decrease", "split", "share", "times",
}

// afterAmount may follow an amount; another noun after a number is what it
// counts.
var afterAmount = []string{
	"to", "from", "for", "back", "on", "in", "at", "and", "as", "i", "that", "which", "or", "of", "by", "via", "per", "with", "into", "we", "you", "they", "euro", "euros", "dollars", "dollar", "pounds", "francs", "usd", "eur", "gbp", "chf", "instead", "now",
}

// names never begin with these, though a sentence may.
var noNames = []string{
	"i", "i'm", "i'd", "i've", "please", "can", "could", "would", "will", "what", "what's", "who", "who's", "whom", "where", "when", "why", "how", "which", "is", "are", "am", "was", "were", "do", "does", "did", "don't", "have", "has", "had",
	"the", "a", "an", "this", "that", "these", "those", "my", "your", "our", "their", "his", "her", "its", "it", "it's", "he", "she", "they", "we", "you", "there", "here", "if", "then", "also", "after", "before", "and", "or", "but", "so", "on", "in", "at", "to", "for",
	"from", "with", "of", "by", "as", "not", "no", "yes", "let", "let's", "should", "must", "may", "might", "today", "tomorrow", "yesterday", "hi", "hello", "hey", "thanks", "finally", "next", "first", "second", "perform", "summarize", "give", "look", "take", "use", "follow", "answer", "ask", "help", "go", "want", "need",
	"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february", "march", "april", "june", "july", "august", "september", "october", "november", "december",
}

// synonyms are the verbs that ask for what one asks for, itself among them.
func synonyms(verb string) []string {
	out := []string{verb}
	for _, group := range acts {
		if slices.Contains(group, verb) {
			out = append(out, group...)
		}
	}
	return out
}

// isAct reports whether a word asks for some act.
func isAct(word string) bool {
	return slices.ContainsFunc(acts, func(g []string) bool { return slices.Contains(g, word) })
}

// sorts are the indexes in things of what a word may be.
func sorts(word string) []int {
	var out []int
	for i, group := range things {
		if slices.Contains(group, word) || slices.Contains(group, strings.TrimSuffix(word, "s")) {
			out = append(out, i)
		}
	}
	return out
}

// verb is the first word of a tool's name.
func (t tool) verb() string { return splitName(t.Name)[0] }

// reads reports whether a tool's name says that it changes nothing.
func (t tool) reads() bool { return slices.Contains(reading, t.verb()) }

// about are the sorts of things that a tool's name is about.
func (t tool) about() []int {
	var out []int
	words := splitName(t.Name)
	for _, w := range words[1:] {
		out = append(out, sorts(w)...)
	}
	return out
}
