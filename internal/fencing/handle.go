package fencing

import "database/sql"

// NoTransaction says why what a Fence was given is no transaction of database/sql; "" if it may be one.
func NoTransaction(tx any) string {
	switch t := tx.(type) {
	case nil:
		return "Fence was given no transaction (nil)"
	case *sql.DB:
		return "Fence was given a *sql.DB, which is no transaction: it would lock nothing; begin one, or use InTx"
	case *sql.Tx:
		if t == nil {
			return "Fence was given no transaction (nil *sql.Tx)"
		}
	}
	return ""
}
