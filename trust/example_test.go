package trust_test

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/trust"
)

// The score of an agent is computed from what its chains of evidence say, and
// says of what it is made.
func ExampleOf() {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	report := trust.Of(trust.History{
		Counts: trust.Counts{Achieved: 90, Failed: 10}, Renewed: now.AddDate(0, 0, -120), AsOf: now,
	})
	fmt.Println(report.Score, report.Level, "is at least MODERATE:", report.Level.Reaches(trust.Moderate))
	for _, part := range report.Parts {
		fmt.Printf("%+v\n", part)
	}
	// Output:
	// 0.8600 MODERATE is at least MODERATE: true
	// {Name:failures Off:0.0400 Why:0.4 x 10 of 100 that were not achieved}
	// {Name:rotation Off:0.1000 Why:its credentials were renewed 120 days ago, more than 90}
}
