package main

import (
	"database/sql"
	"path/filepath"

	"github.com/go-sql-driver/mysql"
)

var storeNames = []string{"memory", "sqlite", "mysql", "mariadb"}

// store is where contenders work, as worker processes are told.
type store struct {
	Name                           string
	Addr, Database, User, Password string // of a server
	Folder                         string // of SQLite files
}

func (s store) server() bool { return s.Addr != "" }

// locksFile is the SQLite file of dibs, peersFile that of the others.
func (s store) locksFile() string { return filepath.Join(s.Folder, "locks.db") }

func (s store) peersFile() string { return filepath.Join(s.Folder, "peers.db") }

// pool is a pool of connections as an application would have it, with as many idle ones as it has workers.
func (s store) pool(workers int) (*sql.DB, error) { return s.open(workers, false) }

// peersPool is the same in the way that suits those who send arguments: without it the client library prepares, executes and closes each statement.
func (s store) peersPool(workers int) (*sql.DB, error) {
	if s.Name != "sqlite" {
		return s.open(workers, true)
	}
	db, err := sql.Open("sqlite", "file:"+s.peersFile()+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err == nil {
		db.SetMaxIdleConns(workers)
	}
	return db, err
}

func (s store) open(workers int, interpolate bool) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName, cfg.User, cfg.Passwd = "tcp", s.Addr, s.Database, s.User, s.Password
	cfg.InterpolateParams = interpolate
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(watched{c})
	db.SetMaxIdleConns(workers + 4)
	return db, nil
}
