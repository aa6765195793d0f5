package a2a

import (
	"slices"

	"github.com/powerbox-project/powerbox"
)

// Results returns what an agent says in an answer: the data and the texts of the parts of its
// message or of its artifacts. What it repeats of the caller's words is left out.
func Results(payload []byte, limits powerbox.Limits) []powerbox.Value {
	v, err := powerbox.DecodeValue(payload, limits)
	if err != nil {
		return nil
	}
	if result, ok := v.Get("result"); ok {
		v = result
	}
	var out []powerbox.Value
	for _, holder := range []string{"", "message", "task", "artifactUpdate"} {
		of := v
		if holder != "" {
			of, _ = v.Get(holder)
		}
		role, _ := of.Get("role")
		if said, _ := role.Text(); said == "agent" || said == "ROLE_AGENT" {
			out = append(out, ofParts(of)...)
		}
		artifacts, _ := of.Get("artifacts")
		all, _ := artifacts.Elements()
		if one, ok := of.Get("artifact"); ok {
			all = append(slices.Clone(all), one)
		}
		for _, artifact := range all {
			out = append(out, ofParts(artifact)...)
		}
	}
	return out
}

func ofParts(of powerbox.Value) []powerbox.Value {
	parts, ok := of.Get("parts")
	if !ok {
		parts, _ = of.Get("content")
	}
	elements, _ := parts.Elements()
	var out []powerbox.Value
	for _, e := range elements {
		for _, name := range []string{"data", "text"} {
			if v, ok := e.Get(name); ok {
				out = append(out, v)
			}
		}
	}
	return out
}
