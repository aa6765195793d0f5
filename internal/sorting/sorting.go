// Package sorting sorts slices of any type with one sorting function. The package slices has one for
// each type, which costs a program 10 to 20 kB a type; calls are decided with those.
package sorting

import "sort"

// by is a slice in the order of a comparison.
type by[T any] struct {
	of      []T
	compare func(a, b T) int
}

// Len implements [sort.Interface].
func (b by[T]) Len() int { return len(b.of) }

// Less implements [sort.Interface].
func (b by[T]) Less(i, j int) bool { return b.compare(b.of[i], b.of[j]) < 0 }

// Swap implements [sort.Interface].
func (b by[T]) Swap(i, j int) { b.of[i], b.of[j] = b.of[j], b.of[i] }

// Sort sorts as [slices.SortFunc] does.
func Sort[T any](of []T, compare func(a, b T) int) { sort.Sort(by[T]{of, compare}) }

// Stable sorts as [slices.SortStableFunc] does: equal elements keep their order.
func Stable[T any](of []T, compare func(a, b T) int) { sort.Stable(by[T]{of, compare}) }
