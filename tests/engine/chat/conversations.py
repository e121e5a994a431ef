"""Requests as a house makes them."""

from local_llm_engine.types import ChatRequest, Message, TextPart, ToolCall, ToolSpec

TOOLS = (
    ToolSpec(
        name="HassTurnOn",
        description="Büro — a/b <i> 'x' & \"y\"",
        parameters={
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "area": {"type": "string", "enum": ["Küche", "Flur"]},
            },
            "additionalProperties": False,
        },
    ),
    ToolSpec(name="GetDateTime", description=""),
)
HOUSE = (
    "You are a voice assistant.\n\nStatic Context:\n- names: Desk Lamp\n  areas: Büro"
)
DATE = "\n\nToday is Sunday, 29 November."
DEVICE = "\nYou are in the Kitchen.\n"
SYSTEM = Message(
    role="system",
    content=(
        TextPart(text=HOUSE, segment="house"),
        TextPart(text=DATE, segment="date"),
        TextPart(text=DEVICE, segment="device"),
    ),
)


def user(text: str | None) -> Message:
    """Say something."""
    return Message(role="user", content=text)


def assistant(text: str | None, thinking: str | None = None) -> Message:
    """Answer with words."""
    return Message(role="assistant", content=text, thinking=thinking)


def calling(
    call_id: str, tool: str, text: str | None = None, /, **arguments: object
) -> Message:
    """Answer with a call."""
    return Message(
        role="assistant",
        content=text,
        tool_calls=(ToolCall(id=call_id, name=tool, arguments=arguments),),
    )


def result(call_id: str, text: str) -> Message:
    """Give a tool's answer."""
    return Message(role="tool", content=text, tool_call_id=call_id)


def chat(
    *messages: Message, tools: tuple[ToolSpec, ...] = TOOLS, thinking: bool = False
) -> ChatRequest:
    """Ask for an answer."""
    return ChatRequest(messages=messages, tools=tools, thinking=thinking)


FIRST_TURN = chat(SYSTEM, user("Turn on the lights"))
TOOL_ROUND = chat(
    SYSTEM,
    user("Turn on the lights"),
    calling("c1", "HassTurnOn", name="Desk Lamp", area="Büro"),
    result("c1", '{"success": true}'),
)
SECOND_ROUND = chat(
    *TOOL_ROUND.messages,
    calling("c2", "GetDateTime", "Let me see."),
    result("c2", "12:30"),
)
SECOND_TURN = chat(
    *SECOND_ROUND.messages,
    assistant("Done at half past twelve."),
    user("Und das Büro? 🛋️"),
)
THIRD_TURN = chat(*SECOND_TURN.messages, assistant("Schon an."), user("寝室のライトも"))
ASKED_BACK = chat(SYSTEM, assistant("Which light?"), user("the desk lamp"))
WITHOUT_SYSTEM = chat(user("Hi"))

CONVERSATIONS = {
    "first turn": FIRST_TURN,
    "tool round": TOOL_ROUND,
    "second round": SECOND_ROUND,
    "second turn": SECOND_TURN,
    "third turn": THIRD_TURN,
    "asked back": ASKED_BACK,
    "without system": WITHOUT_SYSTEM,
}
