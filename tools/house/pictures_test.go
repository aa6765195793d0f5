package main

import (
	"strings"
	"testing"
)

// TestPicturesAreDrawnFromTheirSources holds every SVG of the docs to the text beside it.
func TestPicturesAreDrawnFromTheirSources(t *testing.T) {
	if err := (house{root: mustRoot(t)}).pictures(nil); err != nil {
		t.Error(err)
	}
}

func TestDrawPicture(t *testing.T) {
	const boxes = "size 100 200\nbox a 10 10 80 ours A & B | below\nbox b 10 120 80 store C\n"
	svg, err := drawPicture(boxes + "# a comment\narrow a b 5 down\narrow b a -5 up\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`viewBox="0 0 100 200"`, `>A &amp; B</text>`, `<line x1="55" y1="58" x2="55" y2="120"`, `<line x1="45" y1="120" x2="45" y2="58"`, `>down</text>`,
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	for _, wrong := range []string{"box a 1 2 three ours A", "box a 1 2 3 other A", "arrow a nowhere 0", "arrow a b x", "circle 1 2"} {
		if _, err := drawPicture(boxes + wrong); err == nil || !strings.Contains(err.Error(), "line 4") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
