package outbound

// CheckAddress asks the guard of a policy about one address, without dialling.
func CheckAddress(p Policy, plain bool, address string) error {
	network := "tcp4"
	if address[0] == '[' {
		network = "tcp6"
	}
	return p.guard(plain)(network, address, nil)
}
