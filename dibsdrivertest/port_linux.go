package dibsdrivertest

import (
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// heldPort keeps a port of this machine while nobody listens there: who connects is refused, and nobody else is given it meanwhile.
type heldPort struct {
	addr string
	fd   int
}

func holdPort() (*heldPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	h := &heldPort{fd: fd}
	// A listener may join if both have asked for that, which the net package does.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		h.release()
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: netip.MustParseAddr("127.0.0.1").As4()}); err != nil {
		h.release()
		return nil, err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		h.release()
		return nil, err
	}
	h.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(sa.(*unix.SockaddrInet4).Port))
	return h, nil
}

func (h *heldPort) release() { _ = unix.Close(h.fd) }
