"""The agent's door in parts: jobs, answers, surroundings, resources, prompts, tasks; mcp_server.py joins them."""
