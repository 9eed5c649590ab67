//go:build !linux

package dibsdrivertest

import "net"

// heldPort is a port that was free a moment ago.
type heldPort struct{ addr string }

func holdPort() (*heldPort, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &heldPort{l.Addr().String()}, l.Close()
}

func (*heldPort) release() {}
