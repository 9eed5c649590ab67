package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// greeted returns nil if a server of the MySQL kind greets whoever connects: an open port alone does not mean that.
func greeted(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	if head[4] != 10 { // the protocol's version; an error packet has 255 there
		return errors.New("the server does not greet")
	}
	version, err := r.ReadString(0)
	if err != nil {
		return err
	}
	if strings.TrimSuffix(version, "\x00") == "" {
		return errors.New("the server greets without a version")
	}
	return nil
}

// given is a server that somebody else has started.
func (f *family) given(text string) (*Server, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User == nil {
		return nil, fmt.Errorf("%s: want mysql://user:password@host:port, of an account that may create databases and users", f.env)
	}
	s := &Server{Kind: f.kind, Addr: u.Host}
	if u.Port() == "" {
		s.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	f.accounts(s)
	s.Admin.User = u.User.Username()
	s.Admin.Password, _ = u.User.Password()
	if err := greeted(s.Addr); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", f.env, s.Addr, err)
	}
	return s, nil
}
