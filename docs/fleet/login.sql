-- A login with the rights of a worker. May be run again: it then sets the password.
\getenv password WORKER_PASSWORD
SELECT 'CREATE ROLE worker LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'worker')
\gexec
ALTER ROLE worker PASSWORD :'password';
GRANT perdure_worker TO worker;
