# The main job on this machine: tools/up and tools/down say what they do.
.PHONY: up down
up: ## set up, start and prove the example volumes
	@tools/up
down: ## stop what `make up` started
	@tools/down
