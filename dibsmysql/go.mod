module github.com/dibs-go/dibs/dibsmysql

go 1.26.0

require (
	github.com/dibs-go/dibs v0.1.0
	github.com/go-sql-driver/mysql v1.10.1
)

require filippo.io/edwards25519 v1.2.0 // indirect
