package main

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const picturesFolder = "docs/pictures"

// A picture is drawn from lines of text, so that a reader can edit it:
//
//	title TEXT
//	about TEXT                            what the picture says, for readers who do not see it
//	size WIDTH HEIGHT
//	box ID X Y WIDTH KIND TITLE | LINE... KIND is ours, theirs, store or person
//	arrow FROM TO SHIFT LABEL | LINE...   from edge to edge; SHIFT moves it aside
//	dashed FROM TO SHIFT LABEL | LINE...
//	note X Y TEXT
//
// An empty line and one that begins with # are skipped.
type picture struct {
	title, about  string
	width, height int
	boxes         map[string]pictureBox
	body          bytes.Buffer
}

type pictureBox struct{ x, y, w, h int }

// pictureFills are the colours of a kind of box: its inside and its border.
var pictureFills = map[string][2]string{
	"ours": {"#e8f1ff", "#1f5fbf"}, "theirs": {"#f5f5f5", "#767676"}, "store": {"#eaf7ea", "#2e7d32"}, "person": {"#fff4e0", "#b26a00"},
}

// drawPicture returns the SVG of a source.
func drawPicture(source string) ([]byte, error) {
	p := picture{boxes: map[string]pictureBox{}}
	for i, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		if err := p.line(verb, rest); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d" font-family="Helvetica, Arial, sans-serif" font-size="13">`+"\n",
		p.width, p.height, p.width, p.height)
	fmt.Fprintf(&out, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n", html.EscapeString(p.title), html.EscapeString(p.about))
	out.WriteString(`<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#333"/></marker></defs>` + "\n")
	fmt.Fprintf(&out, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", p.width, p.height)
	out.Write(p.body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

func (p *picture) line(verb, rest string) error {
	fields := strings.Fields(rest)
	switch {
	case verb == "title":
		p.title = rest
	case verb == "about":
		p.about = rest
	case verb == "size" && len(fields) == 2:
		return numbers(fields, &p.width, &p.height)
	case verb == "box" && len(fields) >= 6:
		return p.box(fields[0], fields[1:4], fields[4], strings.Join(fields[5:], " "))
	case (verb == "arrow" || verb == "dashed") && len(fields) >= 3:
		return p.arrow(verb == "dashed", fields[0], fields[1], fields[2], strings.Join(fields[3:], " "))
	case verb == "note" && len(fields) >= 3:
		var x, y int
		if err := numbers(fields[:2], &x, &y); err != nil {
			return err
		}
		p.text(x, y, "start", "#555", "", strings.Join(fields[2:], " "))
	default:
		return fmt.Errorf("%q is no line of a picture, or has too few fields", verb)
	}
	return nil
}

func (p *picture) box(id string, place []string, kind, text string) error {
	fill, ok := pictureFills[kind]
	if !ok {
		return fmt.Errorf("box %s: no kind %q", id, kind)
	}
	lines := strings.Split(text, " | ")
	b := pictureBox{h: 14 + 17*len(lines)}
	if err := numbers(place, &b.x, &b.y, &b.w); err != nil {
		return err
	}
	p.boxes[id] = b
	fmt.Fprintf(&p.body, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"%s\"/>\n", b.x, b.y, b.w, b.h, fill[0], fill[1])
	for i, line := range lines {
		weight := ` font-weight="bold"`
		if i > 0 {
			weight = ""
		}
		p.text(b.x+b.w/2, b.y+20+17*i, "middle", "#111", weight, line)
	}
	return nil
}

// arrow goes straight down, up or aside, from the edge of one box to that of the other.
func (p *picture) arrow(dashed bool, from, to, shift, text string) error {
	a, okA := p.boxes[from]
	b, okB := p.boxes[to]
	var aside int
	if err := numbers([]string{shift}, &aside); err != nil || !okA || !okB {
		return fmt.Errorf("arrow from %s to %s: both boxes stand above it, and the shift is a number", from, to)
	}
	// The middle of the edge that both have in common.
	x := (max(a.x, b.x)+min(a.x+a.w, b.x+b.w))/2 + aside
	y := (max(a.y, b.y)+min(a.y+a.h, b.y+b.h))/2 + aside
	x1, y1, x2, y2 := x, a.y+a.h, x, b.y
	switch {
	case b.y+b.h <= a.y:
		y1, y2 = a.y, b.y+b.h
	case b.x >= a.x+a.w && b.y < a.y+a.h:
		x1, y1, x2, y2 = a.x+a.w, y, b.x, y
	case b.x+b.w <= a.x && b.y < a.y+a.h:
		x1, y1, x2, y2 = a.x, y, b.x+b.w, y
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(&p.body, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#333\" stroke-width=\"1.5\"%s marker-end=\"url(#end)\"/>\n", x1, y1, x2, y2, dash)
	if text == "" {
		return nil
	}
	lines := strings.Split(text, " | ")
	for i, line := range lines {
		if x1 == x2 {
			p.text(x1+8, (y1+y2)/2+4+16*i-8*(len(lines)-1), "start", "#333", "", line)
		} else {
			p.text((x1+x2)/2, y1-6-16*(len(lines)-1-i), "middle", "#333", "", line)
		}
	}
	return nil
}

func (p *picture) text(x, y int, anchor, colour, weight, text string) {
	fmt.Fprintf(&p.body, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" fill=\"%s\"%s>%s</text>\n", x, y, anchor, colour, weight, html.EscapeString(text))
}

func numbers(fields []string, to ...*int) error {
	for i, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("%q is not a number", field)
		}
		*to[i] = n
	}
	return nil
}

// pictures says which pictures are not what their sources draw, or with -write draws them.
func (h house) pictures(args []string) error {
	sources, err := filepath.Glob(filepath.Join(h.root, picturesFolder, "*.txt"))
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("no pictures in %s: %w", picturesFolder, err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		drawn, err := drawPicture(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		file := strings.TrimSuffix(source, ".txt") + ".svg"
		if slices.Equal(args, []string{"-write"}) {
			err = os.WriteFile(file, drawn, 0o644)
		} else if there, _ := os.ReadFile(file); !bytes.Equal(there, drawn) {
			err = fmt.Errorf("%s is not what its source draws: make generate", filepath.Base(file))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
