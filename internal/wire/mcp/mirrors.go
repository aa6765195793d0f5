package mcp

import (
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// maxHeaders is how many headers may repeat parts of a message. They may be compared
// before the caller is authenticated (ATK-55).
const maxHeaders = 64

// mirrors are the arguments of a tool that headers can say, by name and value and by
// value alone, made in one walk: each header then costs one look, however many
// arguments there are.
type mirrors map[mirror]bool

// mirror is one value under a name as in headers, "" for any name. A mirror without
// a value stands for the name alone.
type mirror struct {
	name   string
	kind   powerbox.Kind
	text   string
	number powerbox.Decimal
}

func mirrorsOf(arguments powerbox.Value) mirrors {
	all := mirrors{}
	all.add(arguments)
	return all
}

func (a mirrors) add(v powerbox.Value) {
	members, _ := v.Members()
	for _, member := range members {
		a.add(member.Value)
		is, primitive := valueOf(member.Value)
		if !primitive {
			continue
		}
		a[is] = true
		is.name = headerOf(member.Name)
		a[is] = true
		a[mirror{name: is.name}] = true
	}
}

// has reports whether an argument has a value that a header says. Which argument
// it is about only the tool's schema says, which the server holds it to: here it is one
// of the name that the header has, where there is one, and any otherwise.
func (a mirrors) has(name, said string) bool {
	if name = headerOf(name); !a[mirror{name: name}] {
		name = ""
	}
	if a[mirror{name: name, kind: powerbox.KindString, text: said}] || (said == "true" || said == "false") && a[mirror{name: name, kind: powerbox.KindBool, text: said}] {
		return true
	}
	d, err := powerbox.ParseDecimal(said)
	return err == nil && a[mirror{name: name, kind: powerbox.KindNumber, number: d}]
}

// headerOf is a name as in headers: without letter case, with dashes.
func headerOf(name string) string {
	return powerbox.FoldCase(strings.ReplaceAll(name, "_", "-"))
}

// valueOf returns a value that headers can say: numbers as numbers.
func valueOf(v powerbox.Value) (is mirror, primitive bool) {
	is.kind = v.Kind()
	if text, ok := v.Text(); ok {
		is.text = text
		return is, true
	}
	if truth, ok := v.Truth(); ok {
		is.text = strconv.FormatBool(truth)
		return is, true
	}
	d, ok := v.Decimal()
	is.number = d
	return is, ok
}
