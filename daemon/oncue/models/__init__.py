"""Language models, whoever provides them; the port is `oncue.ports.Generator`."""
