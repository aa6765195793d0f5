package audit

import (
	"encoding/json"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
)

// ReadBefore words the labels of what a caller had read before a call, "" where the gateway
// labels nothing.
func ReadBefore(r evidence.Record) string {
	var details struct {
		Data struct {
			Read []struct {
				Source, Trust string
				Confidential  bool
			}
		}
	}
	if json.Unmarshal(r.Intent.Details, &details) != nil {
		return ""
	}
	var words []string
	for _, l := range details.Data.Read {
		word := l.Source + " (" + l.Trust
		if l.Confidential {
			word += ", confidential"
		}
		words = append(words, word+")")
	}
	return strings.Join(words, ", ")
}
