package dibsmysql

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// turns opens connections to several addresses in turn, as a load balancer does.
type turns struct {
	t     *testing.T
	dsn   string
	addrs []string
	n     atomic.Int64
}

// Connect opens the next.
func (c *turns) Connect(ctx context.Context) (driver.Conn, error) {
	cfg, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		return nil, err
	}
	cfg.Addr = c.addrs[int(c.n.Add(1)-1)%len(c.addrs)]
	to, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return to.Connect(ctx)
}

// Driver is the client library's.
func (c *turns) Driver() driver.Driver { return mysql.MySQLDriver{} }
