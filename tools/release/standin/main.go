// Command standin stands for the product in the tests: a small program that links a module.
package main

import (
	"fmt"

	"github.com/google/uuid"
)

func main() { fmt.Println(uuid.Nil) }
