"""A client of Home Assistant's REST and WebSocket interfaces, over TCP like any other program.

Knows the protocols, nothing of the house.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import aiohttp

from .core import DemoError


class Client:
    """One logged-in connection; one command at a time."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        socket: aiohttp.ClientWebSocketResponse,
        url: str,
        token: str,
    ) -> None:
        """Speak through a session and a socket that are open and logged in."""
        self._session = session
        self._socket = socket
        self._url = url
        self._token = token
        self._ids = count(1)

    async def command(self, command: str, **fields: Any) -> Any:
        """Send a WebSocket command and return its result.

        Raises:
            DemoError: Home Assistant refuses it.

        """
        number = next(self._ids)
        await self._socket.send_json({"id": number, "type": command, **fields})
        answer = await self._socket.receive_json()
        if not answer["success"]:
            raise DemoError(f"Home Assistant refused {command}: {answer['error']}")
        return answer["result"]

    async def action(self, action: str, **data: Any) -> Any:
        """Perform an action that answers, and return its answer."""
        domain, service = action.split(".")
        result = await self.command(
            "call_service",
            domain=domain,
            service=service,
            service_data=data,
            return_response=True,
        )
        return result["response"]

    async def states(self) -> dict[str, dict[str, Any]]:
        """Return every entity's state with its attributes, by entity id."""
        return {state["entity_id"]: state for state in await self.command("get_states")}

    async def post(self, path: str, data: dict[str, Any]) -> Any:
        """Post JSON to the REST interface and return its answer.

        Raises:
            DemoError: Home Assistant refuses it.

        """
        headers = {"Authorization": f"Bearer {self._token}"}
        async with self._session.post(
            self._url + path, json=data, headers=headers
        ) as response:
            if response.status >= 300:
                words = await response.text()
                raise DemoError(f"Home Assistant refused {path}: {words}")
            return await response.json()


@asynccontextmanager
async def connected(url: str, user: str, password: str) -> AsyncIterator[Client]:
    """Log in as a browser does, and open the WebSocket."""
    async with aiohttp.ClientSession() as session:
        token = await _log_in(session, url, user, password)
        async with session.ws_connect(f"{url}/api/websocket", max_msg_size=0) as socket:
            await socket.receive_json()
            await socket.send_json({"type": "auth", "access_token": token})
            answer = await socket.receive_json()
            if answer["type"] != "auth_ok":
                raise DemoError(f"Home Assistant refused the token: {answer}")
            yield Client(session, socket, url, token)


async def _log_in(
    session: aiohttp.ClientSession, url: str, user: str, password: str
) -> str:
    """Go through the log-in form and return an access token."""
    client_id = f"{url}/"
    start = {
        "client_id": client_id,
        "handler": ["homeassistant", None],
        "redirect_uri": client_id,
    }
    form = {"client_id": client_id, "username": user, "password": password}
    async with session.post(f"{url}/auth/login_flow", json=start) as response:
        flow = await response.json()
    async with session.post(
        f"{url}/auth/login_flow/{flow['flow_id']}", json=form
    ) as response:
        result = await response.json()
    if result["type"] != "create_entry":
        raise DemoError(f"Home Assistant did not let {user} in: {result}")
    grant = {
        "grant_type": "authorization_code",
        "code": result["result"],
        "client_id": client_id,
    }
    async with session.post(f"{url}/auth/token", data=grant) as response:
        tokens = await response.json()
    return str(tokens["access_token"])
