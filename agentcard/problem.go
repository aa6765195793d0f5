package agentcard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity is how bad a problem is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the card breaks a rule that it must keep
	Warning Severity = "warning" // readers cope, or the rule is one that cards should keep
)

// Problem is one thing that is wrong with a card.
type Problem struct {
	Pointer  string   `json:"pointer"` // where, as a JSON pointer (RFC 6901); "" is the card
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`    // what, in a word that stays the same: see the Code constants
	Message  string   `json:"message"` // what, where and what would be right
}

func (p Problem) String() string {
	where := p.Pointer
	if where == "" {
		where = "the card"
	}
	return fmt.Sprintf("%s  %s  %s (%s)", p.Severity, where, p.Message, p.Code)
}

// The codes of problems.
const (
	CodeUnreadable    = "unreadable"        // no JSON object within the limits
	codeDuplicate     = "duplicate_member"  // a member twice in one object, in whatever spelling
	codeVariant       = "name_variant"      // a member that some readers take for another
	codeType          = "wrong_type"        // a value of another type
	codeMissing       = "missing"           // a required member is not there
	codeEmpty         = "empty"             // a required member is there and empty
	codeUnknown       = "unknown_member"    // no member of the protocol or the contract
	codeSpelling      = "spelling"          // the schema's spelling in place of the JSON form's
	codeDialect       = "other_version"     // a member of another protocol version
	codeSkill         = "skill_id"          // two skills of one id
	codeScheme        = "security_scheme"   // a requirement of a scheme that is not there, or a scheme of no kind
	codeDeprecated    = "deprecated"        // supported and discouraged
	codeVersion       = "version_format"    // no Major.Minor
	codeRange         = "version_range"     // inverted, empty or contradicted
	codeURL           = "url"               // no URL of the kind that is wanted
	codePlain         = "no_tls"            // http where https is wanted
	codeBinding       = "binding"           // neither a known binding nor a URI
	codeTwice         = "declared_twice"    // the same thing declared more than once
	codeMedia         = "media_type"        // no media type
	codeExtension     = "extension"         // an extension without a usable URI
	codeContradiction = "contradiction"     // two places of the card say different things
	codeVendor        = "vendor_feature"    // a vendor feature without namespace or description
	codeSignature     = "signature_form"    // a signature that cannot be checked
	codeNotSigned     = "outside_signature" // declared where no signature covers it
	codeNumber        = "number"            // a number that readers change
	codeUndeclared    = "undeclared"        // used by the card itself and not declared
)

// misread are the codes of what readers read differently, or what cannot be
// read: with one of them nothing that the card says can be relied on.
var misread = []string{CodeUnreadable, codeDuplicate, codeVariant, codeType, codeRange, codeVersion, codeContradiction, codeSkill, codeTwice}

// Relied reports whether nothing among the problems keeps a reader from relying
// on what the card says: none is an error about what it says at all. A card that
// only lacks something can still be relied on for what it has.
func Relied(problems []Problem) bool {
	return !slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Error && slices.Contains(misread, p.Code) })
}

// Errors counts the problems that are errors.
func Errors(problems []Problem) int {
	n := 0
	for _, p := range problems {
		if p.Severity == Error {
			n++
		}
	}
	return n
}

// findings collects problems.
type findings struct {
	strict bool
	all    []Problem
}

func (f *findings) fail(pointer, code, format string, args ...any) {
	f.all = append(f.all, Problem{pointer, Error, code, fmt.Sprintf(format, args...)})
}

func (f *findings) warn(pointer, code, format string, args ...any) {
	f.all = append(f.all, Problem{pointer, Warning, code, fmt.Sprintf(format, args...)})
}

// lax is an error in strict mode and a warning otherwise.
func (f *findings) lax(pointer, code, format string, args ...any) {
	if f.strict {
		f.fail(pointer, code, format, args...)
		return
	}
	f.warn(pointer, code, format, args...)
}

// sorted returns the problems in the order of their places, errors first at each.
func (f *findings) sorted() []Problem {
	slices.SortStableFunc(f.all, func(a, b Problem) int {
		return cmp.Or(comparePointers(a.Pointer, b.Pointer), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return f.all
}

// comparePointers orders places as they stand below each other, elements of
// arrays by number.
func comparePointers(a, b string) int {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(x), len(y)) {
		if x[i] == y[i] {
			continue
		}
		if isIndex(x[i]) && isIndex(y[i]) {
			return cmp.Or(cmp.Compare(len(x[i]), len(y[i])), cmp.Compare(x[i], y[i]))
		}
		return cmp.Compare(x[i], y[i])
	}
	return cmp.Compare(len(x), len(y))
}

func isIndex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
